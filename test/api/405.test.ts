import { Agent } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, CHECK, HOT, launchSampleApi, VAULT } from "../support/api.ts";
import { type HttpAnswer, sendBytes, sendHttp } from "../support/http.ts";

let api: Api;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
beforeAll(async () => {
  api = await launchSampleApi();
});
afterAll(() => {
  agent.destroy();
  return api?.stop();
});

/** Sends any method, unlike fetch, over one connection. */
const send = (method: string, path: string, body?: string) => sendHttp(api.port, { method, path, agent }, body);

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
  ["a bad wallet", "/registry/v2/garbage"],
  ["an unknown path", "/nothing/here"],
  ["the root", "/"],
  ["/health", "/health"],
] as const)("%s", ([, path]) => {
  test("returns 405 with the allowed methods for other methods", async () => {
    for (const method of REFUSED) expectRefusal(await send(method, path));
  });

  test("answers HEAD like GET, without the body", async () => {
    const [get, head] = [await api.get(path), await api.get(path, { method: "HEAD" })];
    expect(head.status).toBe(get.status);
    expect(await head.text()).toBe("");
    // These depend on the request, the time, the body or the connection.
    const changing = ["x-request-id", "ratelimit", "date", "content-length", "connection", "keep-alive"];
    const headersOf = ({ headers }: Response) => [...headers].filter(([name]) => !changing.includes(name));
    expect(headersOf(head)).toEqual(headersOf(get));
  });

  test("answers OPTIONS with the methods, and no body", async () => {
    const response = await api.get(path, { method: "OPTIONS" });
    expect([response.status, await response.text()]).toEqual([204, ""]);
    expect(response.headers.get("access-control-allow-methods")).toBe("GET,HEAD,OPTIONS");
  });
});

test("CONNECT returns 405 and closes the connection", async () => {
  const answer = await sendBytes(api.port, "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n");
  expectRefusal(answer);
  expect(answer.headers.connection).toBe("close");
});

test("method-override headers are ignored", async () => {
  const headers = { "X-HTTP-Method-Override": "GET", "X-HTTP-Method": "GET", "X-Method-Override": "GET" };
  expect((await api.get(CHECK, { method: "POST", headers })).status).toBe(405);
  expect((await api.get(CHECK, { headers: { "X-HTTP-Method-Override": "DELETE" } })).status).toBe(200);
});

test("a 405 to a request with a body leaves the connection usable", async () => {
  await send("GET", CHECK);
  const refused = await send("POST", CHECK, JSON.stringify({ to: HOT, from: VAULT, padding: "x".repeat(100_000) }));
  expect(refused).toMatchObject({ status: 405, isReused: true });
  expect(await send("GET", CHECK)).toMatchObject({ status: 200, body: "true", isReused: true });
});
