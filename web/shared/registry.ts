import {
  type ClientOptions,
  createClient,
  RegistryError,
  type WalletList,
  type WalletPage,
} from "../../client/src/index.ts";
import { type FetchFailure, readProblem } from "./fetch-json.ts";

/** Longer than the service takes, and a slow connection for a body of 1,000 checks. */
const TIMEOUT_MS = 60_000;

/** A client of this service. */
export const createRegistry = (options: Omit<ClientOptions, "url"> = {}) =>
  createClient({ url: location.origin, timeoutMs: TIMEOUT_MS, ...options });

/**
 * A client for one question of a view. It asks once: a view explains a failure and tries again itself. A client that
 * knows the rate limit would wait for it without a word.
 */
export const createAsker = () => createRegistry({ retries: 0 });

/** Reads a whole number from a field or from the URL. */
export const toInteger = (name: string, text: string): bigint => {
  if (!/^(\d+|0x[0-9a-f]+)$/i.test(text)) throw new RangeError(`${name} has to be a whole number.`);
  return BigInt(text);
};

export const toBlock = (text: string): bigint | "finalized" | undefined => {
  if (text === "") return undefined;
  return text === "finalized" ? text : toInteger("block", text);
};

/** Reads the first page of a list. */
export const readPage = async <Row>(list: WalletList<Row>): Promise<WalletPage<Row>> => {
  const page = await list.pages()[Symbol.asyncIterator]().next();
  if (page.done) throw new Error("The list has no page.");
  return page.value;
};

/** Maps what a client throws. */
export const toFailure = (error: unknown): FetchFailure => {
  if (!(error instanceof RegistryError)) return { kind: "bad-request", detail: describe(error), errors: [] };
  const { status, problem, retryAfterMs } = error;
  // A page with status 200 is one of another server.
  if (status === null || status === 200) return { kind: "unreachable" };
  return readProblem(status, retryAfterMs / 1000 || 1, problem ?? {});
};

const describe = (error: unknown): string => (error instanceof Error ? error.message : String(error));
