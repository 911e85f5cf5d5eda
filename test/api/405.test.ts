import { Agent } from "node:http";
import { afterAll, describe, expect } from "vitest";
import { CHECK, HOT, VAULT } from "../support/api.ts";
import { type HttpAnswer, sendBytes, sendHttp } from "../support/http.ts";
import { test } from "../support/test.ts";

const agent = new Agent({ keepAlive: true, maxSockets: 1 });
afterAll(() => agent.destroy());

const expectRefusal = ({ status, headers, body }: HttpAnswer) => {
  expect(status).toBe(405);
  expect(headers).toMatchObject({ allow: "GET, HEAD, OPTIONS", "content-type": "application/problem+json" });
  expect(JSON.parse(body)).toEqual({
    type: "/docs#problem-method-not-allowed",
    title: "Method not allowed",
    status: 405,
    detail: expect.stringContaining("GET, HEAD, OPTIONS"),
  });
};

const REFUSED = "POST PUT DELETE PATCH TRACE PROPFIND PURGE LINK M-SEARCH SEARCH MKCOL REPORT".split(" ");

describe.for([
  ["a check", CHECK],
  ["a check without its parameters", "/registry/v2/check/all"],
  ["a v1 check", `/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`],
  ["a list", `/registry/v2/${VAULT}`],
  ["a page of a list", `/registry/v2/${VAULT}?limit=1`],
  ["a bad wallet", "/registry/v2/garbage"],
  ["an unknown path", "/nothing/here"],
  ["the root", "/"],
  ["/health", "/health"],
] as const)("%s", ([, path]) => {
  test("returns 405 with the allowed methods for other methods", async ({ samples }) => {
    for (const method of REFUSED) expectRefusal(await sendHttp(samples.port, { method, path, agent }));
  });

  test("answers HEAD like GET, without the body", async ({ samples }) => {
    const [get, head] = [await samples.get(path), await samples.get(path, { method: "HEAD" })];
    expect(head.status).toBe(get.status);
    expect(await head.text()).toBe("");
    // These depend on the request, the time, the body or the connection.
    const changing = ["x-request-id", "ratelimit", "date", "content-length", "connection", "keep-alive"];
    const headersOf = ({ headers }: Response) => [...headers].filter(([name]) => !changing.includes(name));
    expect(headersOf(head)).toEqual(headersOf(get));
  });
});

test("CONNECT returns 405 and closes the connection", async ({ samples }) => {
  const answer = await sendBytes(samples.port, "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n");
  expectRefusal(answer);
  expect(answer.headers.connection).toBe("close");
});

test("method-override headers are ignored", async ({ samples }) => {
  const headers = { "X-HTTP-Method-Override": "GET", "X-HTTP-Method": "GET", "X-Method-Override": "GET" };
  expect((await samples.get(CHECK, { method: "POST", headers })).status).toBe(405);
  expect((await samples.get(CHECK, { headers: { "X-HTTP-Method-Override": "DELETE" } })).status).toBe(200);
});

test("a 405 to a request with a body leaves the connection usable", async ({ samples }) => {
  const send = (method: string, body = "") => sendHttp(samples.port, { method, path: CHECK, agent }, body);
  await send("GET");
  expect(await send("POST", "x".repeat(100_000))).toMatchObject({ status: 405, isReused: true });
  expect(await send("GET")).toMatchObject({ status: 200, body: "true", isReused: true });
});
