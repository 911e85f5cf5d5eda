import { hash } from "node:crypto";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { accepts } from "hono/accepts";
import type { Asset } from "../../web/build.ts";
import type { ApiContext } from "../context.ts";
import { respond } from "../respond.ts";

/** Compresses fast rather than well, and outside of the event loop. */
export const compress = async (text: string): Promise<Asset> => {
  const content = Buffer.from(text);
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } };
  const [brotli, gzipped] = await Promise.all([promisify(brotliCompress)(content, quality), promisify(gzip)(content)]);
  return { content, brotli, gzip: gzipped };
};

/** Prefers the smallest encoding, whatever the order in the header. */
const ENCODINGS: Parameters<typeof accepts>[1] = {
  header: "Accept-Encoding",
  supports: ["br", "gzip"],
  default: "identity",
  match: (accepted, { supports, default: plain }) =>
    supports.find((encoding) => accepted.some(({ type, q }) => type === encoding && q > 0)) ?? plain,
};

/** Creates a handler that serves an asset in the smallest encoding that the browser accepts. */
export const serveAsset = (asset: Asset, assetHeaders: Readonly<Record<string, string>>) => {
  const contentHash = hash("sha256", asset.content, "base64url").slice(0, 22);
  const encode = (body: Buffer, encoding: string) => ({
    body: body as Buffer<ArrayBuffer>,
    headers: {
      ...assetHeaders,
      Vary: "Accept-Encoding",
      ETag: `"${contentHash}-${encoding}"`,
      ...(encoding !== "identity" && { "Content-Encoding": encoding }),
    },
  });
  const encoded = {
    br: encode(asset.brotli, "br"),
    gzip: encode(asset.gzip, "gzip"),
    identity: encode(asset.content, "identity"),
  };
  return (c: ApiContext, ownHeaders: Readonly<Record<string, string>> = {}): Response => {
    const { body, headers } = encoded[accepts(c, ENCODINGS) as keyof typeof encoded];
    return respond(c, 200, body, { ...headers, ...ownHeaders });
  };
};
