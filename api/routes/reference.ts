import { readFileSync } from "node:fs";
import { join } from "node:path";
import { respond } from "../exchange.ts";
import type { ServiceDescription } from "../openapi.ts";
import { renderReference } from "../reference/render-reference.ts";
import type { Routes } from "./routes.ts";

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
export const addReference = (routes: Routes, document: ServiceDescription): void => {
  const add = (path: string, type: string, content: string) =>
    routes.get(path, (exchange) =>
      respond(exchange, 200, content, { ...HEADERS, "Content-Type": `${type}; charset=utf-8` }),
    );

  add("/docs", "text/html", renderReference(document));
  add("/docs/reference.css", "text/css", readFileSync(join(ASSETS, "reference.css"), "utf8"));
  add("/docs/reference.js", "text/javascript", readFileSync(join(ASSETS, "reference.js"), "utf8"));
};
