import { setTimeout as sleep } from "node:timers/promises";
import { type Address, getAddress, type Hex, zeroHash } from "viem";
import { encodeV1, encodeV2 } from "../local/calls.ts";
import type { LocalChain } from "../local/chain.ts";
import { networks } from "../registry/networks.ts";
import { Stack, type StackOptions } from "./stack.ts";

// A chain that counts its blocks in both registries, in binary: a block's number determines all its delegations. A
// change that was lost, applied twice or not reverted makes answers wrong, and readers detect it.

const BITS = 8;
const COIN: Address = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48";
const NFT: Address = "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D";
/** Each block changes one of so many tokens. */
const TOKENS = 3;
/** Block timestamps are whole seconds: faster chains would run ahead of the clock. */
const BLOCK_MS = 1_000;
/** The indexes of a stack start at different blocks, up to this one. There are no events before it. */
const EMPTY_BLOCKS = 2;
const FIRST_BLOCKS = 5;

/** The wallets that count, which determine every answer. */
export type Counter = { chainId: number; vault: Address; bits: readonly Address[]; holder: Address };

const isBitSet = (block: number, index: number): boolean => ((block >> index) & 1) === 1;

/** Returns if a token is delegated: in the newest block that changed it, if that was odd. */
const isTokenSet = (block: number, tokenId: number): boolean => {
  let changed = block;
  while (changed % TOKENS !== tokenId) changed--;
  return changed % 2 === 1;
};

export const createCounter = ({ chainId, accounts }: Pick<LocalChain, "chainId" | "accounts">): Counter => {
  const [vault, holder, ...others] = accounts;
  const bits = others.slice(0, BITS);
  if (!vault || !holder || bits.length < BITS) throw new Error(`Chain ${chainId} has too few wallets.`);
  return { chainId, vault, holder, bits };
};

/** A path, with a function that verifies an answer at its block. */
export type CounterQuestion = { chainId: number; path: string; isRight: (block: number, body: string) => boolean };

/** Lists every question whose answer changes as the chain counts, and one whose answer does not. */
export const listCounterQuestions = ({ chainId, vault, bits, holder }: Counter): CounterQuestion[] => {
  const ask = (path: string, isRight: CounterQuestion["isRight"]): CounterQuestion => ({
    chainId,
    path: `/registry/${path}${path.includes("?") ? "&" : "?"}chainId=${chainId}`,
    isRight,
  });
  const check = (path: string, answer: (block: number) => unknown) =>
    ask(path, (block, body) => body === String(answer(block)));
  const list = (path: string, read: (row: Record<string, unknown>) => unknown, rows: (block: number) => unknown[]) =>
    ask(`${path}?details=true&numbers=string`, (block, body) => {
      const found: unknown = JSON.parse(body);
      return Array.isArray(found) && found.map(read).sort().join() === rows(block).sort().join();
    });
  const bitsAt = (block: number) =>
    bits.flatMap((address, index) => (isBitSet(block, index) ? getAddress(address) : []));
  const tokens = Array.from({ length: TOKENS }, (_, tokenId) => tokenId);
  const heldAt = (block: number) => [
    `${getAddress(holder)} ${block}`,
    ...tokens.flatMap((tokenId) => (isTokenSet(block, tokenId) ? `${getAddress(holder)} ${tokenId}` : [])),
  ];
  const readHeld = ({ to, amount, tokenId }: Record<string, unknown>) =>
    [to, amount ?? tokenId].filter((part) => part !== null).join(" ");

  const held = `to=${holder}&from=${vault}`;
  return [
    ...bits.flatMap((address, index) => {
      const isSet = (block: number) => isBitSet(block, index);
      return [
        check(`v1/check/all?delegate=${address}&vault=${vault}`, isSet),
        check(`v1/check/contract?delegate=${address}&vault=${vault}&contract=${NFT}`, isSet),
        check(`v2/check/all?to=${address}&from=${vault}`, isSet),
      ];
    }),
    check(`v2/check/erc20?${held}&contract=${COIN}`, (block) => block),
    ...tokens.map((tokenId) =>
      check(`v2/check/erc721?${held}&contract=${NFT}&tokenId=${tokenId}`, (block) => isTokenSet(block, tokenId)),
    ),
    check(`v2/check/all?to=${vault}&from=${holder}`, () => false),
    list(`v1/${vault}`, ({ delegate }) => delegate, bitsAt),
    list(`v2/${vault}`, readHeld, (block) => [...bitsAt(block), ...heldAt(block)]),
    list(`v2/${holder}`, readHeld, heldAt),
  ];
};

/** Mines the next block, with the transactions that write its number to the registries. */
const mineNextCount = async (chain: LocalChain): Promise<void> => {
  const { client, chainId } = chain;
  const { vault, bits, holder } = createCounter(chain);
  const v1 = networks.get(chainId)?.v1?.address;
  const v2 = networks.get(chainId)?.v2?.address;
  if (!v1 || !v2) throw new Error(`Chain ${chainId} does not have both registries.`);
  const send = (to: Address, data: Hex) =>
    client.sendTransaction({ account: vault, chain: null, to, data, gas: 300_000n });

  const number = Number(await client.getBlockNumber()) + 1;
  for (const [index, address] of bits.entries()) {
    const isSet = isBitSet(number, index);
    // The first blocks write all bits, as the initial state is unknown.
    if (number > EMPTY_BLOCKS + 3 && isSet === isBitSet(number - 1, index)) continue;
    await send(v1, encodeV1("delegateForAll", [address, isSet]));
    await send(v2, encodeV2("delegateAll", [address, zeroHash, isSet]));
  }
  await send(v2, encodeV2("delegateERC20", [holder, COIN, zeroHash, BigInt(number)]));
  const tokenId = number % TOKENS;
  await send(v2, encodeV2("delegateERC721", [holder, NFT, BigInt(tokenId), zeroHash, isTokenSet(number, tokenId)]));
  await client.mine({ blocks: 1 });
};

/** Mines a block per second until the returned function is called. */
const keepCounting = (chain: LocalChain): (() => Promise<void>) => {
  let isStopped = false;
  const count = async () => {
    while (!isStopped) {
      const startedAt = Date.now();
      await mineNextCount(chain);
      await sleep(Math.max(0, startedAt + BLOCK_MS - Date.now()));
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

/** Starts the service over chains that count, and resolves when every API answers for every chain. */
export const startCountingStack = async ({
  history = FIRST_BLOCKS,
  ...options
}: StackOptions & { history?: number }) => {
  const startsAt = new Date(Date.now() - (EMPTY_BLOCKS + history) * BLOCK_MS);
  const stack = await Stack.start({ startsAt, ...options });
  const counting: (() => Promise<void>)[] = [];
  const stop = async (...args: Parameters<Stack["stop"]>) => {
    await Promise.all(counting.map((end) => end())).catch(() => {});
    await stack.stop(...args);
  };
  try {
    for (const chain of stack.chains) {
      await chain.client.mine({ blocks: EMPTY_BLOCKS });
      for (let block = 0; block < history; block++) await mineNextCount(chain);
      counting.push(keepCounting(chain));
    }
    await stack.startService();
    await stack.untilReady();
    return { stack, stop };
  } catch (error) {
    await stop();
    throw error;
  }
};
