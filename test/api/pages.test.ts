import { expect } from "vitest";
import { PAGES } from "../../web/pages.ts";
import type { Api } from "../support/api.ts";
import { test as base } from "../support/test.ts";

// HTTP responses of pages and assets. test/browser/ covers their content.

const pages = PAGES.map(({ path }) => path);

const test = base
  // One request in ten seconds: requests for pages must not count.
  .extend("env", { RATE_LIMIT_REQUESTS: "1" })
  /** Paths of all assets. */
  .extend("assets", async ({ api }) => {
    const texts = await Promise.all(pages.map(async (path) => (await api.get(path)).text()));
    return [...new Set(texts.flatMap((text) => text.match(/\/assets\/[\w.-]+/g) ?? []))];
  });

const get = (api: Api, path: string, headers: Record<string, string> = {}, method = "GET") =>
  api.get(path, { headers, method });

test("pages and assets forbid other origins and frames, and do not count against the rate limit", async ({
  api,
  assets,
}) => {
  expect(assets.length).toBeGreaterThan(pages.length);
  for (const path of [...pages, ...assets]) {
    const { status, headers } = await get(api, path);
    expect(status, path).toBe(200);
    expect(headers.get("Content-Security-Policy")).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
    expect(headers.get("Referrer-Policy")).toBe("no-referrer");
    expect(headers.get("RateLimit")).toBe(null);
  }
});

test("pages have no inline script, style or handler", async ({ api }) => {
  for (const path of pages) {
    expect(await (await get(api, path)).text()).not.toMatch(
      /<style|<script(?! type="module" src=| src=)| style="| on\w+="/,
    );
  }
});

test("assets are cached for a year under hashed names, and pages are revalidated each time", async ({
  api,
  assets,
}) => {
  for (const path of assets) {
    expect(path).toMatch(/-[A-Z\d]{8}\.(js|css|svg)$/);
    expect((await get(api, path)).headers.get("Cache-Control")).toBe("public, max-age=31536000, immutable");
  }
  for (const path of pages) expect((await get(api, path)).headers.get("Cache-Control")).toBe("no-cache");
});

test.for([
  ["js", "text/javascript; charset=utf-8"],
  ["css", "text/css; charset=utf-8"],
  ["svg", "image/svg+xml"],
] as const)("a .%s is served as %s", async ([extension, type], { api, assets }) => {
  const named = assets.filter((path) => path.endsWith(`.${extension}`));
  expect(named).not.toEqual([]);
  for (const path of named) expect((await get(api, path)).headers.get("Content-Type")).toBe(type);
});

test.for([
  ["br, gzip", "br"],
  ["gzip, deflate, br;q=1.0", "br"],
  ["gzip", "gzip"],
  ["br;q=0, gzip;q=0.5", "gzip"],
  ["identity", null],
  ["br;q=0.0,gzip;q=0", null],
] as const)(
  "Accept-Encoding %s gets the same content as %s, with its own ETag",
  async ([accepted, encoding], { api, assets }) => {
    for (const path of ["/", ...assets.slice(0, 2)]) {
      const plain = await get(api, path, { "Accept-Encoding": "identity" });
      const sent = await get(api, path, { "Accept-Encoding": accepted });
      expect(sent.headers.get("Content-Encoding")).toBe(encoding);
      expect(sent.headers.get("Vary")).toBe("Accept-Encoding");
      const [text, plainText] = [await sent.text(), await plain.text()];
      expect(text).toBe(plainText);
      const isSmaller = Number(sent.headers.get("Content-Length")) < Buffer.byteLength(text);
      expect([isSmaller, sent.headers.get("ETag") === plain.headers.get("ETag")]).toEqual(
        encoding ? [true, false] : [false, true],
      );
    }
  },
);

test("If-None-Match with a matching ETag returns 304, and HEAD no body", async ({ api, assets }) => {
  for (const path of ["/", "/docs", ...assets.slice(0, 1)]) {
    const { headers } = await get(api, path);
    const tag = headers.get("ETag") ?? "";
    const same = await get(api, path, { "If-None-Match": `"other", W/${tag}` });
    expect([same.status, await same.text(), same.headers.get("ETag")]).toEqual([304, "", tag]);
    expect((await get(api, path, { "If-None-Match": '"other"' })).status).toBe(200);
    const head = await get(api, path, {}, "HEAD");
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect(head.headers.get("Content-Length")).toBe(headers.get("Content-Length"));
  }
});

test("an asset of another version returns 404", async ({ api }) => {
  const response = await get(api, "/assets/explorer-AAAAAAAA.js");
  expect([response.status, response.headers.get("Content-Type")]).toEqual([404, "application/problem+json"]);
});
