import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Validator } from "@seriousme/openapi-schema-validator";
import openapiTS, { astToString } from "openapi-typescript";
import { expect } from "vitest";
import { renderClientChecks } from "../../commands/openapi/render-client-checks.ts";
import type { Description } from "../support/openapi.ts";
import { ROOT } from "../support/run.ts";
import { test } from "../support/test.ts";

const COMMITTED = join(ROOT, "docs/openapi.json");

let served: Description;
test.beforeAll(async ({ samples }) => {
  served = (await (await samples.get("/openapi.json")).json()) as Description;
});

const operations = () =>
  Object.entries(served.paths).flatMap(([path, { get, ...methods }]) =>
    get && path.startsWith("/registry/") ? [{ path, get, methods }] : [],
  );

test("docs/openapi.json is what the service serves; `npm run openapi` writes it", () => {
  expect(JSON.parse(readFileSync(COMMITTED, "utf8"))).toEqual(served);
});

test.for([
  ["openapi.ts", async () => astToString(await openapiTS(pathToFileURL(COMMITTED)))],
  ["checks.ts", async () => renderClientChecks()],
] as const)("client/src/%s is up to date; `npm run openapi` writes it", async ([file, render]) => {
  const path = join(ROOT, "client/src", file);
  const biome = join(ROOT, "node_modules/@biomejs/biome/bin/biome");
  const format = [biome, "format", `--stdin-file-path=${path}`];
  const { stdout } = spawnSync(process.execPath, format, { cwd: ROOT, input: await render(), encoding: "utf8" });
  const withoutHeader = (text: string) => text.slice(text.indexOf("export "));
  expect(withoutHeader(readFileSync(path, "utf8"))).toBe(withoutHeader(stdout));
});

test("the document is valid OpenAPI 3.1", async () => {
  expect(served.openapi).toMatch(/^3\.1\.\d+$/);
  const { valid, errors } = await new Validator().validate({ ...served });
  expect(errors).toBeUndefined();
  expect(valid).toBe(true);
});

// Parameters of the contract: required, then optional.
const CONTRACT = {
  "/registry/v2/{wallet}": ["wallet", "chainId"],
  "/registry/v2/check/all": ["to from", "chainId rights"],
  "/registry/v2/check/contract": ["from to contract", "chainId rights"],
  "/registry/v2/check/erc721": ["delegate vault contract tokenId", "chainId rights"],
  "/registry/v2/check/erc1155": ["delegate vault contract tokenId", "chainId rights"],
  "/registry/v2/check/erc20": ["delegate vault contract", "chainId rights"],
  "/registry/v1/{wallet}": ["wallet", "chainId"],
  "/registry/v1/check/all": ["delegate vault", "chainId"],
  "/registry/v1/check/contract": ["delegate vault contract", "chainId"],
  "/registry/v1/check/token": ["delegate vault contract tokenId", "chainId"],
} as const;

// Parameters beyond the contract.
const LIST_OPTIONS = ["details", "limit", "cursor", "numbers"];
const BLOCKS = ["block", "minBlock"];
const ofChecks = (path: string) => (path.includes("/check/") ? ["proof"] : []);
const EXTRAS: Record<string, string[]> = {
  "/registry/v1/{wallet}": LIST_OPTIONS,
  "/registry/v2/{wallet}": LIST_OPTIONS,
  "/registry/v2/check/erc20": ["numbers"],
  "/registry/v2/check/erc1155": ["numbers"],
};

test("the document has exactly the ten operations of the contract, with their parameters, and many checks", () => {
  expect(Object.keys(served.paths["/registry/checks"] ?? {})).toEqual(["post"]);
  const described = operations().map(({ path, get, methods }) => {
    expect(methods, `${path} has other methods than GET`).toEqual({});
    const { parameters = [] } = get;
    const names = (isRequired: boolean) =>
      parameters.filter(({ required = false }) => required === isRequired).map(({ name }) => name);
    for (const { name, ...parameter } of parameters) {
      expect(parameter.in, `${path}: ${name}`).toBe(name === "wallet" ? "path" : "query");
    }
    return [path, { required: names(true).sort(), optional: names(false).sort() }];
  });
  const expected = Object.entries(CONTRACT).map(([path, [required, optional]]) => [
    path,
    {
      required: required.split(" ").sort(),
      optional: [...optional.split(" "), ...BLOCKS, ...ofChecks(path), ...(EXTRAS[path] ?? [])].sort(),
    },
  ]);
  expect(Object.fromEntries(described)).toEqual(Object.fromEntries(expected));
});

test("every operation documents its freshness headers, and the Retry-After of a 503", () => {
  for (const { path, get } of operations()) {
    const { headers } = get.responses[200] ?? {};
    for (const name of ["X-Indexed-Block", "X-Indexed-Block-Timestamp", "X-Finalized-Block"]) {
      expect(headers?.[name], `${path}: ${name}`).toMatchObject({ required: true });
    }
    expect(get.responses[503]?.headers?.["Retry-After"], path).toMatchObject({ required: true });
    expect(Object.keys(get.responses), path).toEqual(expect.arrayContaining(["200", "400", "503"]));
  }
});

test("every operation has its own id", () => {
  const ids = Object.values(served.paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId }) => operationId),
  );
  expect(new Set(ids).size).toBe(ids.length);
});
