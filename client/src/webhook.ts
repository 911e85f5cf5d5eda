import { toExact } from "./lists.ts";
import { RegistryError } from "./registry-error.ts";
import type { Change } from "./watch.ts";

export type WebhookMessage = {
  /** The same for every delivery of a message: a message may come twice. */
  id: string;
  timestamp: string;
} & (
  | { type: "delegation.changed"; data: Change }
  /** A reorg makes every change of a network after a block void. */
  | { type: "delegation.undone"; data: { chainId: number; afterBlock: number } }
  /** A user requested a test. */
  | { type: "webhook.test"; data: { webhook: string } }
);

/** A request of a framework without Fetch's `Request`: the body as it was received, not parsed. */
export type ReceivedWebhook = {
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
  body: string | Uint8Array;
};

const TOLERANCE_SECONDS = 300;
const SECRET = /^whsec_(?<base64>[A-Za-z0-9+/]{4,}={0,2})$/;

/**
 * Verifies a message of a webhook, and returns it. Throws a `RegistryError` unless a secret has signed it within five
 * minutes.
 *
 * @param secrets - `whsec_…`; several while one replaces another
 */
export const verifyWebhook = async (
  request: Request | ReceivedWebhook,
  secrets: string | readonly string[],
): Promise<WebhookMessage> => {
  const { id, timestamp, signatures } = readHeaders(request.headers);
  const keys = [secrets].flat().map(readSecret);
  if (keys.length === 0) throw refuse("There is no secret to verify it with.");
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) {
    throw refuse("It was not signed within the last five minutes, or the clock of this machine is wrong.");
  }
  const body = await readBody(request);
  const signed = join(encoder.encode(`${id}.${timestamp}.`), body);
  const expected = await Promise.all(keys.map((key) => sign(key, signed)));
  // All are compared, so that the time tells nothing.
  const found = signatures.flatMap((signature) => expected.map((one) => isEqual(signature, one)));
  if (!found.includes(true)) throw refuse("No signature is of this body and one of the secrets.");
  return readMessage(id, new TextDecoder().decode(body));
};

const encoder = new TextEncoder();

const refuse = (reason: string, cause?: unknown): RegistryError =>
  new RegistryError(`This is not a message of the webhook: ${reason}`, { isRetryable: false, cause });

const isFetchHeaders = (headers: ReceivedWebhook["headers"]): headers is Headers => typeof headers.get === "function";

const readHeaders = (headers: ReceivedWebhook["headers"]) => {
  const read = (name: string): string => {
    // Not `instanceof`: a framework can have a copy of the class.
    const value = isFetchHeaders(headers) ? headers.get(name) : headers[name];
    if (typeof value !== "string" || value === "") throw refuse(`It has no header ${name}.`);
    return value;
  };
  const signatures = read("webhook-signature").split(" ");
  return { id: read("webhook-id"), timestamp: read("webhook-timestamp"), signatures };
};

const readSecret = (secret: string): Uint8Array<ArrayBuffer> => {
  const base64 = SECRET.exec(secret)?.groups?.base64;
  try {
    return Uint8Array.from(atob(base64 ?? "?"), (byte) => byte.charCodeAt(0));
  } catch (cause) {
    throw refuse("A secret to verify it with is not whsec_ and base64.", cause);
  }
};

const readBody = async (request: Request | ReceivedWebhook): Promise<Uint8Array> => {
  if ("arrayBuffer" in request) return new Uint8Array(await request.arrayBuffer());
  return typeof request.body === "string" ? encoder.encode(request.body) : request.body;
};

const join = (start: Uint8Array, end: Uint8Array): Uint8Array<ArrayBuffer> => {
  const joined = new Uint8Array(start.length + end.length);
  joined.set(start);
  joined.set(end, start.length);
  return joined;
};

const sign = async (secret: Uint8Array<ArrayBuffer>, signed: Uint8Array<ArrayBuffer>): Promise<string> => {
  const { subtle } = await findCrypto();
  const key = await subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const hmac = new Uint8Array(await subtle.sign("HMAC", key, signed));
  return `v1,${btoa(String.fromCharCode(...hmac))}`;
};

/** Node 18 has it in a module alone, which a bundler must not look for. */
const findCrypto = async (): Promise<typeof globalThis.crypto> => {
  const node = "node:crypto";
  return globalThis.crypto ?? (await import(/* webpackIgnore: true */ /* @vite-ignore */ node)).webcrypto;
};

/** Takes the same time wherever two texts of one length differ. */
const isEqual = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length;
  for (let index = 0; index < b.length; index++) difference |= a.charCodeAt(index) ^ b.charCodeAt(index);
  return difference === 0;
};

const readMessage = (id: string, text: string): WebhookMessage => {
  try {
    const { type, timestamp, data } = JSON.parse(text);
    if (typeof timestamp !== "string") throw new TypeError("timestamp is not a text.");
    switch (type) {
      case "delegation.changed": {
        const change = toExact(data) as Change;
        if (typeof change.blockNumber !== "bigint") throw new TypeError("data is not a change.");
        return { id, type, timestamp, data: change };
      }
      case "delegation.undone": {
        const { chainId, afterBlock } = data;
        if (![chainId, afterBlock].every(Number.isSafeInteger)) throw new TypeError("data has no block.");
        return { id, type, timestamp, data: { chainId, afterBlock } };
      }
      case "webhook.test":
        return { id, type, timestamp, data: { webhook: String(data.webhook) } };
    }
  } catch (cause) {
    throw refuse("Its body is not of a known form.", cause);
  }
  // Of a later version: a reader that does not know it may miss something.
  throw refuse("Its body is not of a known type.");
};
