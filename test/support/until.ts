import { setTimeout as sleep } from "node:timers/promises";
import type { LocalChain } from "../../sandbox/chain.ts";
import { type Queries, readIndexedHash } from "./index-state.ts";

/** Repeats a question until the answer is yes. */
export const until = async (what: string, isSo: () => Promise<boolean>, seconds = 120): Promise<void> => {
  const deadline = Date.now() + seconds * 1000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`Waited ${seconds} s in vain until ${what}.`);
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
  await until(
    `block ${head.number} of chain ${chain.chainId} is indexed`,
    async () => {
      const hash = await readIndexedHash(database, schema, chain.chainId).catch(() => null);
      return hash === head.hash;
    },
    seconds,
  );
};
