import fc from "fast-check";
import { expect, test } from "vitest";
import { formatCsv, parseCsv } from "../../web/checks/csv.ts";
import { PROPERTY_RUNS } from "../support/random.ts";

/** Texts with many characters that have a meaning in CSV, and no formulas. */
const field = fc
  .string({
    unit: fc.oneof(fc.constantFrom(..." \"',;\t\r\n"), fc.string({ minLength: 1, maxLength: 1, unit: "binary" })),
  })
  .filter((text) => !/^[=+\-@\t\r\n\ufeff]/.test(text));

const table = fc
  .integer({ min: 1, max: 5 })
  .chain((columns) => fc.array(fc.array(field, { minLength: columns, maxLength: columns }), { minLength: 1 }))
  .filter((rows) => rows.every((fields) => fields.some((text) => text.trim() !== "")));

test("parseCsv() reads what formatCsv() writes, with every field as it was", () => {
  fc.assert(
    fc.property(table, fc.constantFrom(",", ";"), fc.boolean(), (rows, separator, hasMark) => {
      const parsed = parseCsv(`${hasMark ? "\ufeff" : ""}${formatCsv(rows, separator)}`);
      expect(parsed.openQuoteLine).toBe(null);
      expect(parsed.rows.map(({ fields }) => fields)).toEqual(rows);
    }),
    { numRuns: PROPERTY_RUNS },
  );
});

test("parseCsv() ends for every text, and keeps its lines in order", () => {
  const text = fc.string({ unit: fc.constantFrom(..."ab \"',;\t\r\n"), maxLength: 60 });
  fc.assert(
    fc.property(text, (text) => {
      const lines = parseCsv(text).rows.map(({ line }) => line);
      expect(lines).toEqual([...new Set(lines)].sort((a, b) => a - b));
      expect(lines.at(-1) ?? 1).toBeLessThanOrEqual(text.split(/\r\n|[\r\n]/).length);
    }),
    { numRuns: PROPERTY_RUNS },
  );
});
