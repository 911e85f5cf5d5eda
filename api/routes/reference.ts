import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { ServiceDescription } from "../openapi.ts";
import { renderReference } from "../reference/render-reference.ts";

const ASSETS = join(import.meta.dirname, "../reference");

const HEADERS = {
  // Nothing is loaded from anywhere else, and nobody else's script runs here.
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "public, max-age=300",
};

/** The API reference, for people: a page and what it is made with, all from here. */
export const addReference = (app: OpenAPIHono, document: ServiceDescription): void => {
  const add = (path: string, type: string, content: string) =>
    app.get(path, (context) => context.body(content, 200, { ...HEADERS, "Content-Type": `${type}; charset=utf-8` }));

  add("/docs", "text/html", renderReference(document));
  add("/docs/reference.css", "text/css", readFileSync(join(ASSETS, "reference.css"), "utf8"));
  add("/docs/reference.js", "text/javascript", readFileSync(join(ASSETS, "reference.js"), "utf8"));
};
