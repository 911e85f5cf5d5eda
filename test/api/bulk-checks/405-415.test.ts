import { expect } from "vitest";
import { ALL, postChecks } from "../../support/bulk-checks.ts";
import { addKey } from "../../support/keys.ts";
import { test } from "../../support/test.ts";

test.for(["GET", "HEAD", "PUT", "DELETE"])("%s is a 405: only POST is allowed", async (method, { samples }) => {
  const refused = await samples.get("/registry/checks", { method });
  expect([refused.status, refused.headers.get("Allow")]).toEqual([405, "POST, OPTIONS"]);
});

test("POST is allowed from pages of any origin", async ({ samples }) => {
  const preflight = await samples.get("/registry/checks", {
    method: "OPTIONS",
    headers: { Origin: "https://example.com", "Access-Control-Request-Method": "POST" },
  });
  expect(preflight.headers.get("Access-Control-Allow-Methods")).toContain("POST");
  expect(preflight.headers.get("Access-Control-Allow-Headers")).toContain("Content-Type");
});

test("a body with more than 32,768 bytes, or 1,000,000 with a key, is a 413", async ({ api, database }) => {
  const { key } = await addKey(database);
  const send = async (bytes: number, headers = {}) => {
    const body = JSON.stringify({ checks: [ALL], note: "" });
    const filled = body.replace('"note":""', `"note":"${"x".repeat(bytes - body.length)}"`);
    const response = await postChecks(api, filled, { headers });
    return [response.status, ((await response.json()) as { detail?: string }).detail];
  };
  expect(await send(32_768)).toEqual([200, undefined]);
  expect(await send(32_769)).toEqual([413, "A body may have at most 32,768 bytes; with an API key 1,000,000."]);
  expect(await send(1_000_000, { "X-API-KEY": key })).toEqual([200, undefined]);
  expect(await send(1_000_001, { "X-API-KEY": key })).toEqual([413, "A body may have at most 1,000,000 bytes."]);
});

test("a body of another type is a 415", async ({ samples }) => {
  const response = await postChecks(samples, { checks: [ALL] }, { headers: { "Content-Type": "text/plain" } });
  expect([response.status, await response.json()]).toMatchObject([415, { type: "/docs#problem-unsupported-body" }]);
});
