import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import type { LocalChain } from "../../sandbox/chain.ts";
import { type Queries, readIndexedHash } from "./index-state.ts";

/**
 * Repeats a reading until it is what is wanted, and returns it.
 * When the time is up, the error says what was read last.
 */
export const until = async <T>(
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

/** Resolves when the newest block of a chain is the newest that the index includes. */
export const untilIndexed = async (
  database: Queries,
  chain: LocalChain,
  { schema = "registry", seconds = 60 } = {},
): Promise<void> => {
  const { number, hash } = await chain.client.getBlock();
  await until(
    `block ${number} (${hash}) of chain ${chain.chainId} is indexed`,
    () => readIndexedHash(database, schema, chain.chainId).catch((error) => error),
    seconds,
    (indexed) => indexed === hash,
  );
};
