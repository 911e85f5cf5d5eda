import { describe, expect } from "vitest";
import { type Api, CHECK, HOT, VAULT } from "../support/api.ts";
import { sendBytes } from "../support/http.ts";
import { test } from "../support/test.ts";

const EXPOSED =
  "x-indexed-block x-indexed-block-timestamp x-finalized-block ratelimit-policy ratelimit retry-after link".split(" ");

/** Reads a list of header names, in lower case. */
const readNames = (response: Response, header: string) =>
  (response.headers.get(header) ?? "").split(",").map((name) => name.trim().toLowerCase());

const expectReadable = (response: Response) => {
  expect(response.headers.get("access-control-allow-origin")).toBe("*");
  // Browsers reject a wildcard origin with credentials.
  expect(response.headers.get("access-control-allow-credentials")).toBeNull();
};

describe("any origin may read the response and its headers:", () => {
  test.for<[what: string, path: string, status: number, init?: { method?: string; headers?: Record<string, string> }]>([
    ["a check", CHECK, 200],
    ["a v1 check", `/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`, 200],
    ["a list", `/registry/v2/${VAULT}`, 200],
    ["a page of a list", `/registry/v2/${VAULT}?limit=1`, 200],
    ["a HEAD", CHECK, 200, { method: "HEAD" }],
    ["a bad parameter", "/registry/v2/check/all", 400],
    ["an unknown key", CHECK, 401, { headers: { "X-API-KEY": "unknown" } }],
    ["an unknown path", "/nothing/here", 404],
    ["another method", CHECK, 405, { method: "POST" }],
    ["a URL that is too long", `${CHECK}&x=${"x".repeat(5000)}`, 414],
  ])("%s", async ([, path, status, { method, headers } = {}], { samples }) => {
    for (const origin of ["https://app.example", "http://localhost:3000", "null", "chrome-extension://abcdef"]) {
      const response = await samples.get(path, { method, headers: { ...headers, Origin: origin } });
      expect(response.status).toBe(status);
      expectReadable(response);
      expect(readNames(response, "access-control-expose-headers")).toEqual(expect.arrayContaining(EXPOSED));
    }
    expectReadable(await samples.get(path, { method, headers }));
  });

  // The server refuses these before the app: they have no other header to expose.
  test.for<[what: string, request: string, status: number]>([
    ["a malformed request", "GET \\ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400],
    ["no host", `GET ${CHECK} HTTP/1.1\r\nConnection: close\r\n\r\n`, 400],
    ["a CONNECT", "CONNECT api.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", 405],
    ["headers that are too large", `GET ${CHECK} HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(9000)}\r\n\r\n`, 431],
  ])("%s", async ([, request, status], { samples }) => {
    const answer = await sendBytes(samples.port, request);
    expect(answer).toMatchObject({ status, headers: { "access-control-allow-origin": "*" } });
  });
});

describe("a preflight", () => {
  const preflight = (api: Api, path: string, method = "GET", headers = "x-api-key") =>
    api.get(path, {
      method: "OPTIONS",
      headers: {
        Origin: "https://app.example",
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": headers,
      },
    });

  test.for([
    ...[CHECK, "/registry/v2/check/all", `/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`],
    ...[`/registry/v1/${VAULT}`, `/registry/v2/${VAULT}`, "/registry/v2/garbage", "/nothing/here", "/", "/health"],
  ])("allows X-API-KEY and the supported methods: %s", async (path, { samples }) => {
    const response = await preflight(samples, path);
    expect([response.status, await response.text()]).toEqual([204, ""]);
    expectReadable(response);
    expect(readNames(response, "access-control-allow-methods")).toEqual(["get", "head", "options"]);
    expect(readNames(response, "access-control-allow-headers")).toContain("x-api-key");
    expect(Number(response.headers.get("access-control-max-age"))).toBeGreaterThan(0);
  });

  test("allows no other method or header", async ({ samples }) => {
    const response = await preflight(samples, CHECK, "DELETE", "authorization, x-other");
    expect(readNames(response, "access-control-allow-methods")).toEqual(["get", "head", "options"]);
    expect(readNames(response, "access-control-allow-headers")).toEqual(["x-api-key"]);
  });

  test("is not refused for an unknown key, nor without its headers", async ({ samples }) => {
    const response = await samples.get(CHECK, { method: "OPTIONS", headers: { "X-API-KEY": "unknown" } });
    expect(response.status).toBe(204);
    expect(readNames(response, "access-control-allow-methods")).toEqual(["get", "head", "options"]);
  });
});
