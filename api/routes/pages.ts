import { hash } from "node:crypto";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { accepts } from "hono/accepts";
import type { Asset, Assets } from "../../web/build.ts";
import type { PageName, PageOf } from "../../web/pages.ts";
import { ASSETS_PATH, renderShell } from "../../web/shell.ts";
import type { ApiApp, ApiContext } from "../context.ts";
import { answerUnchanged } from "../middleware/answer-unchanged.ts";
import { Problem } from "../problem.ts";
import { respond } from "../respond.ts";
import { addRoute } from "./add-operation.ts";

const SECURITY = {
  // Nothing is loaded from anywhere else, nobody else's script runs here, and nothing that stands in a page does.
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};
/** Of a page: kept, and asked about each time. The names of what it loads tell whether that is the same. */
const REVALIDATED = "no-cache";
const IMMUTABLE = "public, max-age=31536000, immutable";

const TYPES: Record<string, string> = {
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/**
 * The pages for people, and what they load. They do not count against the rate limit: all of it is in memory, no
 * database is asked, and an answer costs no more than a refusal would. What pages ask of /registry counts.
 *
 * @param pages - those that this service has
 * @param contents - what stands in a page before its script runs
 */
export const addPages = (
  app: ApiApp,
  assets: Assets,
  pages: readonly PageOf[],
  contents: Partial<Record<PageName, string>>,
): void => {
  const unchanged = answerUnchanged(Object.keys(SECURITY));
  for (const { name, path } of pages) {
    const html = Buffer.from(
      renderShell(assets, pages, name, contents[name] ?? '<main id="content" tabindex="-1"></main>'),
    );
    addRoute(app, path, unchanged, answerWith(compress(html), "text/html; charset=utf-8", REVALIDATED));
  }
  const files = new Map(
    [...assets.files].map(([name, asset]) => [
      name,
      answerWith(asset, TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream", IMMUTABLE),
    ]),
  );
  addRoute(app, `${ASSETS_PATH}/:file`, unchanged, (c) => {
    const file = files.get(c.req.param("file") ?? "");
    if (!file) throw new Problem("not-found", "There is no such file. A page that asks for it is of another version.");
    return file(c);
  });
};

/** Quick rather than small: it is done at each start. */
const compress = (content: Buffer): Asset => ({
  content,
  brotli: brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  gzip: gzipSync(content),
});

/** The smallest first, whichever the browser names first. */
const ENCODINGS: Parameters<typeof accepts>[1] = {
  header: "Accept-Encoding",
  supports: ["br", "gzip"],
  default: "identity",
  match: (accepted, { supports, default: plain }) =>
    supports.find((encoding) => accepted.some(({ type, q }) => type === encoding && q > 0)) ?? plain,
};

/** Answers with the smallest form of a content that a browser takes. */
const answerWith = (asset: Asset, type: string, caching: string) => {
  const tag = hash("sha256", asset.content, "base64url").slice(0, 22);
  const form = (body: Buffer, encoding: string) => ({
    body: body as Buffer<ArrayBuffer>,
    headers: {
      ...SECURITY,
      "Cache-Control": caching,
      Vary: "Accept-Encoding",
      ETag: `"${tag}-${encoding}"`,
      "Content-Type": type,
      ...(encoding !== "identity" && { "Content-Encoding": encoding }),
    },
  });
  const forms = {
    br: form(asset.brotli, "br"),
    gzip: form(asset.gzip, "gzip"),
    identity: form(asset.content, "identity"),
  };
  return (c: ApiContext): Response => {
    const { body, headers } = forms[accepts(c, ENCODINGS) as keyof typeof forms];
    return respond(c, 200, body, headers);
  };
};
