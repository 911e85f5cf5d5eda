import { Resolver } from "node:dns/promises";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { type BlockList, isIP, type LookupFunction } from "node:net";
import { rejectOnAbort } from "../../process/program.ts";
import { hasPublicForm, hostOf, isInNetworks, isPublicAddress } from "./receiver-address.ts";

/** Time for everything: finding the address, the connection, TLS, and the answer. */
const DEADLINE_MS = 10_000;
/** Time for the body of an answer, once its status is there. */
const BODY_MS = 1_000;
/** Bytes of an answer that are read and stored. */
const ANSWER_BYTES = 1_024;
const MAX_HEADER_BYTES = 8_192;
/** Answers before the answer, as 103 Early Hints: each has headers of its own. */
const MAX_EARLY_ANSWERS = 8;

/** What became of an attempt. */
export type Outcome = {
  /** A 2xx in time. */
  isDelivered: boolean;
  status: number | null;
  /** Why it is no delivery. */
  error: string | null;
  /** How the body of the answer begins. */
  answer: string | null;
  /** Null if nothing answered: the time would tell which names our networks have. */
  milliseconds: number | null;
};

export type Resolve = (hostname: string, signal: AbortSignal) => Promise<readonly string[]>;

type SenderOptions = {
  /** Networks of the operator, beside all that is public. Only they may have http and other ports. */
  allowedNetworks: BlockList | null;
  /** For tests: instead of DNS. */
  resolve?: Resolve;
  /** For tests: the certificate that signs those of receivers. */
  ca?: string;
  deadlineMs?: number;
};

type Sent = { url: string; headers: Record<string, string>; body: string };

export type Send = (message: Sent, signal: AbortSignal) => Promise<Outcome>;

/** Why a receiver is not asked at all, or its answer does not count. */
class NotDelivered extends Error {}

/** Creates a function that posts a message. It rejects only if its signal is aborted. */
export const createSender =
  ({ allowedNetworks, resolve = createResolve(), ca, deadlineMs = DEADLINE_MS }: SenderOptions): Send =>
  async ({ url, headers, body }, signal) => {
    const startedAt = performance.now();
    const ending = new AbortController();
    const end = () => ending.abort();
    signal.throwIfAborted();
    signal.addEventListener("abort", end);
    const timer = setTimeout(end, deadlineMs);
    try {
      const target = new URL(url);
      const addresses = await findAddresses(target, { allowedNetworks, resolve, signal: ending.signal });
      const { status, answer } = await post({ target, addresses, headers, body, ca, signal: ending.signal });
      const isDelivered = status >= 200 && status <= 299;
      const milliseconds = Math.round(performance.now() - startedAt);
      return { isDelivered, status, answer, milliseconds, error: isDelivered ? null : explainStatus(status) };
    } catch (error) {
      signal.throwIfAborted();
      const reason = ending.signal.aborted ? `No answer within ${deadlineMs / 1000} s.` : explain(error);
      return { isDelivered: false, status: null, answer: null, milliseconds: null, error: reason };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
    }
  };

const explainStatus = (status: number): string =>
  status >= 300 && status <= 399 ? `Answered ${status}: redirects are not followed.` : `Answered ${status}, not 2xx.`;

/** Shows no message of Node's: it names addresses. */
const explain = (error: unknown): string => {
  if (error instanceof NotDelivered) return error.message;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return `The connection failed${typeof code === "string" ? `: ${code}` : ""}.`;
};

type Search = { allowedNetworks: BlockList | null; resolve: Resolve; signal: AbortSignal };

/** Finds the addresses of a receiver, once. Throws unless all of them may be connected to. */
const findAddresses = async (target: URL, { allowedNetworks, resolve, signal }: Search): Promise<readonly string[]> => {
  if (target.username || target.password) throw new NotDelivered("The URL has a user name or a password.");
  const host = hostOf(target);
  const addresses = isIP(host) ? [host] : await rejectOnAbort(signal, resolve(host, signal));
  // The same words for all of them: a stranger learns nothing of the names in our networks.
  const isReachable = (address: string) => isPublicAddress(address) || isInNetworks(address, allowedNetworks);
  if (addresses.length === 0 || !addresses.every(isReachable)) {
    throw new NotDelivered(`${target.hostname} has no address, or one that is not public.`);
  }
  const isOwn = addresses.every((address) => isInNetworks(address, allowedNetworks));
  if (!isOwn && !hasPublicForm(target)) throw new NotDelivered("A receiver needs https:// and port 443.");
  return addresses;
};

/**
 * Creates a function that asks DNS. Not `dns.lookup()`: four names whose servers are silent would stop everything in
 * this process that needs a thread.
 * @param servers - by default the system's
 */
export const createResolve =
  (servers?: readonly string[]): Resolve =>
  async (hostname, signal) => {
    if (/^localhost\.?$/.test(hostname)) return ["127.0.0.1"];
    const resolver = new Resolver({ timeout: 3_000, tries: 2 });
    if (servers) resolver.setServers(servers);
    const cancel = () => resolver.cancel();
    signal.addEventListener("abort", cancel);
    try {
      const found = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
      return found.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  };

type Post = {
  target: URL;
  addresses: readonly string[];
  headers: Record<string, string>;
  body: string;
  ca: string | undefined;
  signal: AbortSignal;
};

/** Posts to these addresses and no others, over a connection of its own. */
const post = ({ target, addresses, headers, body, ca, signal }: Post) =>
  new Promise<{ status: number; answer: string }>((resolve, reject) => {
    const found = addresses.map((address) => ({ address, family: isIP(address) }));
    const lookup: LookupFunction = (_, { all }, callback) => {
      const [first] = found;
      if (all) callback(null, found);
      else callback(null, first?.address ?? "", first?.family);
    };
    const options = {
      method: "POST",
      agent: false,
      lookup,
      signal,
      maxHeaderSize: MAX_HEADER_BYTES,
      headers: {
        "Content-Type": "application/json",
        "Content-Length": Buffer.byteLength(body),
        "User-Agent": "delegation-registry-webhooks",
        ...headers,
      },
    };
    const request =
      target.protocol === "https:"
        ? requestHttps(target, { ...options, rejectUnauthorized: true, ...(ca !== undefined && { ca }) })
        : requestHttp(target, options);
    let fail: (error: Error) => void = reject;
    request.on("error", (error) => fail(error));
    request.on("close", () => fail(new Error("The connection was closed.")));
    let earlyAnswers = 0;
    request.on("information", () => {
      if (++earlyAnswers > MAX_EARLY_ANSWERS) request.destroy(new NotDelivered("Answered 1xx again and again."));
    });
    request.on("response", (response) => {
      const { statusCode: status = 0 } = response;
      const chunks: Buffer[] = [];
      let length = 0;
      // The status is the answer: what follows may be endless, slow, or broken off.
      const finish = () => {
        clearTimeout(timer);
        // Postgres stores no null characters.
        const answer = Buffer.concat(chunks).subarray(0, ANSWER_BYTES).toString().replaceAll("\0", "\uFFFD");
        resolve({ status, answer });
        request.destroy();
      };
      const timer = setTimeout(finish, BODY_MS);
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        length += chunk.length;
        if (length >= ANSWER_BYTES) finish();
      });
      fail = finish;
      response.on("end", finish);
      response.on("error", finish);
    });
    request.end(body);
  });
