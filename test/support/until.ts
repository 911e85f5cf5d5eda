import { setTimeout as sleep } from "node:timers/promises";
import type { LocalChain } from "../../sandbox/chain.ts";
import { type Queries, readIndexedHash } from "./index-state.ts";

/**
 * Repeats a question until the answer is yes.
 * @param instead what is so at the end, if it never was
 */
export const until = async (
  what: string,
  isSo: () => Promise<boolean>,
  seconds = 120,
  instead = () => "",
): Promise<void> => {
  const deadline = Date.now() + seconds * 1000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`Waited ${seconds} s in vain until ${what}. ${instead()}`.trim());
    await sleep(50);
  }
};

/** Resolves when the newest block of a chain is the newest that the index includes. */
export const untilIndexed = async (
  database: Queries,
  chain: LocalChain,
  { schema = "registry", seconds = 120 } = {},
): Promise<void> => {
  const head = await chain.client.getBlock();
  let newest: unknown;
  await until(
    `block ${head.number} (${head.hash}) of chain ${chain.chainId} is indexed`,
    async () => {
      newest = await readIndexedHash(database, schema, chain.chainId).catch((error) => error);
      return newest === head.hash;
    },
    seconds,
    () => `The newest is: ${newest}.`,
  );
};
