import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import type { LocalChain } from "../../local/chain.ts";
import { type Queries, readIndexedHash } from "./index-state.ts";

/**
 * Reads a value repeatedly until it is the wanted one, and returns it.
 * After the timeout it throws an error with the last value.
 */
export const waitUntil = async <T>(
  what: string,
  read: () => Promise<T> | T,
  seconds = 60,
  isWanted: (value: T) => boolean = Boolean,
): Promise<T> => {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const value = await read();
    if (isWanted(value)) return value;
    if (Date.now() > deadline) throw new Error(`Waited ${seconds} s until ${what}. Last seen: ${inspect(value)}`);
    await sleep(25);
  }
};

/** Waits until the newest block of a chain is indexed. */
export const waitUntilIndexed = async (
  database: Queries,
  chain: LocalChain,
  { schema = "registry", seconds = 60 } = {},
): Promise<void> => {
  const { number, hash } = await chain.client.getBlock();
  await waitUntil(
    `block ${number} (${hash}) of chain ${chain.chainId} is indexed`,
    () => readIndexedHash(database, schema, chain.chainId).catch((error) => error),
    seconds,
    (indexed) => indexed === hash,
  );
};
