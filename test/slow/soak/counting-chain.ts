import { setTimeout as sleep } from "node:timers/promises";
import { type Address, getAddress, type Hex, zeroHash } from "viem";
import { encodeV1, encodeV2 } from "../../../local/calls.ts";
import type { LocalChain } from "../../../local/chain.ts";
import { networks } from "../../../registry/networks.ts";

// A chain that counts its blocks in both registries, in binary: a block's number determines all its delegations. A
// change that was lost, applied twice or not reverted makes answers wrong, and readers detect it.

const BITS = 8;
const COIN: Address = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48";

/** The wallets that count, which determine every answer. */
export type Counter = { chainId: number; vault: Address; bits: readonly Address[]; coinHolder: Address };

const isBitSet = (block: number, index: number): boolean => ((block >> index) & 1) === 1;

export const createCounter = ({ chainId, accounts }: Pick<LocalChain, "chainId" | "accounts">): Counter => {
  const [vault, coinHolder, ...others] = accounts;
  const bits = others.slice(0, BITS);
  if (!vault || !coinHolder || bits.length < BITS) throw new Error(`Chain ${chainId} has too few wallets.`);
  return { chainId, vault, coinHolder, bits };
};

/** A path, with a function that verifies an answer at its block. */
export type CounterQuestion = { chainId: number; path: string; isRight: (block: number, body: string) => boolean };

/** Lists every question whose answer changes as the chain counts, and one whose answer does not. */
export const listCounterQuestions = ({ chainId, vault, bits, coinHolder }: Counter): CounterQuestion[] => {
  const ask = (path: string, isRight: CounterQuestion["isRight"]): CounterQuestion => ({
    chainId,
    path: `${path}${path.includes("?") ? "&" : "?"}chainId=${chainId}`,
    isRight,
  });
  const listed = (block: number) =>
    bits.flatMap((address, index) => (isBitSet(block, index) ? getAddress(address) : []));
  const isList = (field: "to" | "delegate", others: readonly Address[]) => (block: number, body: string) => {
    const list: unknown = JSON.parse(body);
    if (!Array.isArray(list)) return false;
    const found = list.map((delegation) => delegation[field]).sort();
    return JSON.stringify(found) === JSON.stringify([...listed(block), ...others].sort());
  };
  return [
    ...bits.flatMap((address, index) => [
      ask(
        `/registry/v1/check/all?delegate=${address}&vault=${vault}`,
        (block, body) => body === String(isBitSet(block, index)),
      ),
      ask(
        `/registry/v2/check/all?to=${address}&from=${vault}`,
        (block, body) => body === String(isBitSet(block, index)),
      ),
    ]),
    ask(
      `/registry/v2/check/erc20?to=${coinHolder}&from=${vault}&contract=${COIN}`,
      (block, body) => body === String(block),
    ),
    ask(`/registry/v2/check/all?to=${vault}&from=${coinHolder}`, (_, body) => body === "false"),
    ask(`/registry/v1/${vault}`, isList("delegate", [])),
    ask(`/registry/v2/${vault}`, isList("to", [getAddress(coinHolder)])),
  ];
};

/** Mines the next block, with the transactions that write its number to the registries. */
export const mineNextCount = async (chain: LocalChain): Promise<void> => {
  const { client, chainId } = chain;
  const { vault, bits, coinHolder } = createCounter(chain);
  const v1 = networks.get(chainId)?.v1?.address;
  const v2 = networks.get(chainId)?.v2?.address;
  if (!v1 || !v2) throw new Error(`Chain ${chainId} does not have both registries.`);
  const send = (to: Address, data: Hex) =>
    client.sendTransaction({ account: vault, chain: null, to, data, gas: 300_000n });

  const number = Number(await client.getBlockNumber()) + 1;
  for (const [index, address] of bits.entries()) {
    const isSet = isBitSet(number, index);
    // The first blocks write all bits, as the initial state is unknown.
    if (number > 3 && isSet === isBitSet(number - 1, index)) continue;
    await send(v1, encodeV1("delegateForAll", [address, isSet]));
    await send(v2, encodeV2("delegateAll", [address, zeroHash, isSet]));
  }
  await send(v2, encodeV2("delegateERC20", [coinHolder, COIN, zeroHash, BigInt(number)]));
  await client.mine({ blocks: 1 });
};

/** Mines a block per interval until the returned function is called. */
export const keepCounting = (chain: LocalChain, intervalMs: number): (() => Promise<void>) => {
  let isStopped = false;
  const count = async () => {
    while (!isStopped) {
      const startedAt = Date.now();
      await mineNextCount(chain);
      await sleep(Math.max(0, startedAt + intervalMs - Date.now()));
    }
  };
  const counting = count();
  // The returned function rethrows its error.
  counting.catch(() => {});
  return () => {
    isStopped = true;
    return counting;
  };
};
