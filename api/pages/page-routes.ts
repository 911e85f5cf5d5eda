import type { Assets } from "../../web/build.ts";
import { ASSETS_PATH, type PageName, type SitePage } from "../../web/pages.ts";
import { renderShell } from "../../web/shell.ts";
import type { ApiApp } from "../context.ts";
import { addRoute } from "../contract/add-operation.ts";
import { respondNotModified } from "../middleware/respond-not-modified.ts";
import { Problem } from "../problem.ts";
import { compress, serveAsset } from "./serve-asset.ts";

const SECURITY_HEADERS = {
  // Pages load nothing from other origins, and run neither foreign nor inline scripts.
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};
/** For pages: browsers cache them and revalidate each time. The names of their assets change with the content. */
const REVALIDATED = "no-cache";
const IMMUTABLE = "public, max-age=31536000, immutable";

const TYPES: Record<string, string> = {
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/** Adds a document that never changes. */
export const addDocument = async (app: ApiApp, path: string, text: string, type: string): Promise<void> => {
  const serve = serveAsset(await compress(text), { "Cache-Control": REVALIDATED, "Content-Type": type });
  addRoute(app, path, respondNotModified([]), (c) => serve(c));
};

/**
 * Adds the pages and their assets, compressed once. They have a rate limit of their own: requests of pages to /registry
 * count like any other.
 *
 * @param pages - the pages of this service
 * @param contents - HTML of a page before its script runs
 */
export const addPages = async (
  app: ApiApp,
  assets: Assets,
  pages: readonly SitePage[],
  contents: Partial<Record<PageName, string>>,
): Promise<void> => {
  const notModified = respondNotModified(Object.keys(SECURITY_HEADERS));
  const headers = { ...SECURITY_HEADERS, "Cache-Control": REVALIDATED, "Content-Type": "text/html; charset=utf-8" };
  for (const { name, path } of pages) {
    const html = renderShell(assets, pages, name, contents[name] ?? '<main id="content" tabindex="-1"></main>');
    const serve = serveAsset(await compress(html), headers);
    addRoute(app, path, notModified, (c) => serve(c));
  }
  const files = new Map(
    [...assets.files].map(([name, asset]) => {
      const type = TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
      return [name, serveAsset(asset, { ...SECURITY_HEADERS, "Cache-Control": IMMUTABLE, "Content-Type": type })];
    }),
  );
  addRoute(app, `${ASSETS_PATH}/:file`, notModified, (c) => {
    const file = files.get(c.req.param("file") ?? "");
    if (!file) throw new Problem("not-found", "This file does not exist. Reload the page: it is from another version.");
    return file(c);
  });
};
