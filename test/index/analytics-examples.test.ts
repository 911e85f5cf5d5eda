import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { readServedSchema } from "../support/index-copy.ts";
import { printTable } from "../support/run.ts";
import { test } from "../support/test.ts";

// docs/analytics.md shows the output of `npm run dev`, over the sandbox's samples.

const DOCUMENT = join(import.meta.dirname, "../../docs/analytics.md");
const text = readFileSync(DOCUMENT, "utf8");
const examples = [...text.matchAll(/^```sql\n((?:(?!```)[\s\S])*)```\n\n```text\n([\s\S]*?)^```$/gm)].map(
  ([, query = "", output = ""]) => ({ title: query.split("\n")[0] ?? "", query, output }),
);

test.beforeAll(async ({ database }) => {
  await database.query("set session_replication_role = replica");
  const schema = await readServedSchema(database);
  await database.query(`update ${schema}.indexed_block set timestamp = extract(epoch from now())`);
  // The chains of `npm run dev` go on, so that the samples become final.
  await database.query(`update ${schema}._ponder_checkpoint set finalized_checkpoint = latest_checkpoint`);
});

test("docs/analytics.md shows at least ten queries with their output", () => {
  expect(examples.length).toBeGreaterThanOrEqual(10);
});

test.for(examples)("docs/analytics.md shows the output of: $title", async ({ query, output }, { database }) => {
  const types = { getTypeParser: () => (value: string) => value };
  const { fields, rows } = await database.query({ text: query, rowMode: "array", types });
  const printed = printTable(
    fields.map(({ name }) => name),
    rows,
  );
  expect(`${printed}\n`).toBe(output);
});

test("docs/analytics.md quotes the comment of every view, column and function", async ({ database }) => {
  const { rows: columns } = await database.query(
    `select relname as view, attname as column, format_type(atttypid, atttypmod) as type, col_description(attrelid, attnum) as comment
     from pg_class join pg_attribute on attrelid = pg_class.oid
     where relnamespace = 'analytics'::regnamespace and attnum > 0 order by relname, attnum`,
  );
  const views = new Map<string, string[]>();
  for (const { view, column, type, comment } of columns) {
    views.set(view, [...(views.get(view) ?? []), `| \`${column}\` | ${type} | ${comment} |`]);
  }
  const { rows: comments } = await database.query(
    "select relname as view, obj_description(oid, 'pg_class') as comment from pg_class where relnamespace = 'analytics'::regnamespace",
  );
  for (const { view, comment } of comments) {
    const section = [
      `### \`analytics.${view}\``,
      "",
      comment,
      "",
      "| column | type | is |",
      "|---|---|---|",
      ...(views.get(view) ?? []),
    ];
    expect(text, view).toContain(section.join("\n"));
  }
  const { rows: functions } = await database.query(
    `select format('| \`%s(%s)\` | %s | %s |', proname, pg_get_function_arguments(oid), pg_get_function_result(oid), obj_description(oid, 'pg_proc')) as line
     from pg_proc where pronamespace = 'analytics'::regnamespace order by proname`,
  );
  expect(text).toContain(functions.map(({ line }) => line).join("\n"));
});
