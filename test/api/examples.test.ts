import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { examples, recipes, useExamples } from "../support/examples.ts";
import type { Description } from "../support/openapi.ts";
import { describeWithPrograms, ROOT } from "../support/run.ts";

// Other languages and error handling: test/slow/examples.test.ts.

const { host, runLine, testBlocks } = useExamples();

for (const { document, language, program, blocks } of [...examples, ...recipes].filter(({ language }) =>
  ["sh", "ts"].includes(language),
)) {
  describeWithPrograms([program], `${document}, ${language}`, () => {
    testBlocks(blocks);
  });
}

describeWithPrograms(["curl"], "README.md", () => {
  test("has curl lines that work", async () => {
    const lines = readFileSync(join(ROOT, "README.md"), "utf8").match(/^curl .*$/gm) ?? [];
    expect(lines).not.toEqual([]);
    for (const line of lines) {
      const printed = await runLine(`${line} --fail`);
      expect(() => JSON.parse(printed)).not.toThrow();
    }
  });
});

test("/openapi.json has an example body that returns its example answers", async () => {
  const { paths } = (await fetch(`http://${host()}/openapi.json`).then((response) => response.json())) as Description;
  const { requestBody, responses } = paths["/registry/checks"]?.post ?? {};
  const response = await fetch(`http://${host()}/registry/checks`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(requestBody?.content["application/json"]?.example),
  });
  const { answers, blocks } = (await response.json()) as { answers: unknown; blocks: object };
  const example = responses?.[200]?.content?.["application/json"]?.example as { answers: unknown; blocks: object };
  expect(answers).toEqual(example.answers);
  expect(Object.keys(blocks)).toEqual(Object.keys(example.blocks));
});

/** The names of all fields, of the first entry of each list, and of the first network. */
const describeShape = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.length > 0 ? [describeShape(value[0])] : [];
  if (typeof value !== "object" || value === null) return null;
  const entries = Object.entries(value).filter(([name]) => name !== "137");
  return Object.fromEntries(entries.map(([name, field]) => [name, describeShape(field)]));
};

test("/openapi.json has parameter examples that return its response examples", async () => {
  const { paths } = (await fetch(`http://${host()}/openapi.json`).then((response) => response.json())) as Description;
  for (const [path, { get }] of Object.entries(paths)) {
    if (!get) continue;
    const { parameters = [], responses } = get;
    const ask = (isGiven: (parameter: (typeof parameters)[number]) => boolean) => {
      const query = new URLSearchParams();
      let filled = path;
      for (const parameter of parameters.filter(isGiven)) {
        const { name, schema } = parameter;
        expect(schema.example, `${path}: ${name} needs an example`).toBeDefined();
        if (parameter.in === "path") filled = filled.replace(`{${name}}`, String(schema.example));
        else query.set(name, String(schema.example));
      }
      return fetch(`http://${host()}${filled}?${query}`);
    };
    const least = await ask(({ required }) => required === true);
    expect(least.status, path).toBe(200);

    const whole = await ask(({ required, schema }) => required === true || schema.example !== undefined);
    expect(whole.status, path).toBe(200);
    const { example } = responses[200]?.content?.["application/json"] ?? {};
    if (/^\/(registry|wallets|changes)/.test(path)) expect(example, `${path} needs an example`).toBeDefined();
    // Blocks and transactions differ from run to run.
    const [body, expected] = /^\/(wallets\/|changes)/.test(path)
      ? [describeShape(await whole.json()), describeShape(example)]
      : [await whole.json(), example];
    if (example !== undefined) expect(body, path).toEqual(expected);
  }
});
