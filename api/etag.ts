import { createHash } from "node:crypto";
import type { Incoming } from "./exchange.ts";

/** Names a content by what it is: the same content has the same name in every process. */
export const etagOf = (content: string | Buffer, form = ""): string =>
  `"${createHash("sha256").update(content).digest("base64url").slice(0, 22)}${form && `-${form}`}"`;

/** Whether the client says that it has the content already. A proxy that has compressed it may call it weakly the same. */
export const hasAlready = ({ headers }: Incoming, etag: string): boolean =>
  headers["if-none-match"]?.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag) ?? false;
