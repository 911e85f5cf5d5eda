import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, CHECK, HOT, launchSampleApi, VAULT } from "../support/api.ts";
import { sendBytes } from "../support/http.ts";

let api: Api;
beforeAll(async () => {
  api = await launchSampleApi();
});
afterAll(() => api?.stop());

const ORIGINS = ["https://app.example", "http://localhost:3000", "null", "chrome-extension://abcdef"];

const EXPOSED = [
  "X-Indexed-Block",
  "X-Indexed-Block-Timestamp",
  "X-Finalized-Block",
  "RateLimit-Policy",
  "RateLimit",
  "Retry-After",
  "Link",
];

/** A list in a header, in lower case: names of headers have no letter case. */
const listOf = (response: Response, header: string) =>
  (response.headers.get(header) ?? "").split(",").map((name) => name.trim().toLowerCase());

const expectReadable = (response: Response) => {
  expect(response.headers.get("access-control-allow-origin")).toBe("*");
  // With credentials, a browser would not accept any origin.
  expect(response.headers.get("access-control-allow-credentials")).toBeNull();
};

type Case = { path: string; status: number; init?: RequestInit };

const ANSWERS: Record<string, Case> = {
  "a check": { path: CHECK, status: 200 },
  "a v1 check": { path: `/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`, status: 200 },
  "a list": { path: `/registry/v2/${VAULT}`, status: 200 },
  "a page of a list": { path: `/registry/v2/${VAULT}?limit=1`, status: 200 },
  "a HEAD": { path: CHECK, status: 200, init: { method: "HEAD" } },
  "400, a bad parameter": { path: "/registry/v2/check/all", status: 400 },
  "401, an unknown key": { path: CHECK, status: 401, init: { headers: { "X-API-KEY": "unknown" } } },
  "404, an unknown path": { path: "/nothing/here", status: 404 },
  "405, a method that is not allowed": { path: CHECK, status: 405, init: { method: "POST" } },
  "414, an over-long URL": { path: `${CHECK}&x=${"x".repeat(5000)}`, status: 414 },
};

describe("any origin may read the answer, and the headers that go with it", () => {
  test.each(Object.entries(ANSWERS))("%s", async (_, { path, status, init = {} }) => {
    for (const origin of ORIGINS) {
      const headers = new Headers(init.headers);
      headers.set("Origin", origin);
      const response = await api.get(path, { ...init, headers });
      expect(response.status).toBe(status);
      expectReadable(response);
      expect(listOf(response, "access-control-expose-headers")).toEqual(
        expect.arrayContaining(EXPOSED.map((name) => name.toLowerCase())),
      );
    }
  });

  test("also where no origin is named", async () => {
    expectReadable(await api.get(CHECK));
  });

  // Refused by the server itself, before the app sees it: no other header of it is worth reading.
  test.each([
    ["400, what is not HTTP", `GET \\ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, 400],
    ["400, no host", `GET ${CHECK} HTTP/1.1\r\nConnection: close\r\n\r\n`, 400],
    ["405, a CONNECT", "CONNECT api.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", 405],
    ["431, headers that are too large", `GET ${CHECK} HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(9000)}\r\n\r\n`, 431],
  ])("%s", async (_, request, status) => {
    const answer = await sendBytes(api.port, request);
    expect(answer).toMatchObject({ status, headers: { "access-control-allow-origin": "*" } });
  });
});

describe("a preflight is granted", () => {
  const PATHS = {
    "to a check": CHECK,
    "to a list": `/registry/v2/${VAULT}`,
    "to v1": `/registry/v1/${VAULT}`,
    "to a bad question": "/registry/v2/check/all",
    "to an unknown path": "/nothing/here",
  };

  test.each(Object.entries(PATHS))("%s, for the key's header and the methods that there are", async (_, path) => {
    const response = await api.get(path, {
      method: "OPTIONS",
      headers: {
        Origin: "https://app.example",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "x-api-key",
      },
    });
    expect(response.status).toBe(204);
    expect(await response.text()).toBe("");
    expectReadable(response);
    expect(listOf(response, "access-control-allow-methods")).toEqual(["get", "head", "options"]);
    expect(listOf(response, "access-control-allow-headers")).toContain("x-api-key");
    expect(Number(response.headers.get("access-control-max-age"))).toBeGreaterThan(0);
  });

  test("whatever else it asks for, no more is granted", async () => {
    const response = await api.get(CHECK, {
      method: "OPTIONS",
      headers: {
        Origin: "https://app.example",
        "Access-Control-Request-Method": "DELETE",
        "Access-Control-Request-Headers": "authorization, x-other",
      },
    });
    expect(listOf(response, "access-control-allow-methods")).toEqual(["get", "head", "options"]);
    expect(listOf(response, "access-control-allow-headers")).toEqual(["x-api-key"]);
  });

  test("a key that a preflight should never carry does not refuse it", async () => {
    const response = await api.get(CHECK, { method: "OPTIONS", headers: { "X-API-KEY": "unknown" } });
    expect(response.status).toBe(204);
  });
});

test("the browser's whole conversation: a preflight for the key, then the question with it", async () => {
  const headers = { Origin: "https://app.example", "X-API-KEY": "unknown" };
  const preflight = await api.get(CHECK, {
    method: "OPTIONS",
    headers: {
      Origin: headers.Origin,
      "Access-Control-Request-Method": "GET",
      "Access-Control-Request-Headers": "x-api-key",
    },
  });
  expect(preflight.ok).toBe(true);
  const response = await api.get(CHECK, { headers });
  expectReadable(response);
  expect(await response.json()).toMatchObject({ status: 401 });
});
