import { Readable } from "node:stream";
import type { z } from "zod";
import type { Incoming } from "../exchange.ts";
import { notHttp, Problem } from "../problem.ts";
import { within } from "../within.ts";

/** Several times the largest signature that contract wallets make. */
const LARGEST_BYTES = 32_768;
const LONGEST_MS = 5_000;

/** Reads what a page has sent: JSON, of bounded size, in time. */
export const readJson = async <Schema extends z.ZodType>(
  incoming: Incoming,
  schema: Schema,
): Promise<z.output<Schema>> => {
  // A form of another site could send anything else without being asked first.
  if (!/^application\/json\s*(;|$)/i.test(incoming.headers["content-type"] ?? "")) {
    throw new Problem("unsupported-body", "The body has to be JSON, with Content-Type: application/json.");
  }
  const text = await within(LONGEST_MS, readText(incoming), tooSlow);
  const parsed = schema.safeParse(parse(text));
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.map(({ path, message }) => ({ parameter: path.join(".") || "body", message }));
  throw new Problem("bad-parameter", errors.map(({ parameter, message }) => `${parameter} ${message}.`).join(" "), {
    errors,
  });
};

const readText = (incoming: Incoming): Promise<string> =>
  new Promise((resolve, reject) => {
    // Node's own is its body, too.
    if (!(incoming instanceof Readable)) {
      resolve("");
      return;
    }
    const chunks: Buffer[] = [];
    let bytes = 0;
    incoming.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      // What comes after that is thrown away.
      if (bytes <= LARGEST_BYTES) chunks.push(chunk);
      else reject(tooLarge());
    });
    incoming.on("end", () => resolve(Buffer.concat(chunks).toString("utf8")));
    // Whoever asked is gone.
    incoming.on("error", () => reject(notHttp()));
  });

const tooLarge = () => new Problem("body-too-large", `A body may have ${LARGEST_BYTES} bytes here.`);

const tooSlow = () =>
  new Problem("request-timeout", `The body did not arrive within ${LONGEST_MS / 1000} s.`, {
    headers: { Connection: "close" },
  });

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};
