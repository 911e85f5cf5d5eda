import { type Address, type Hex, zeroHash } from "viem";
import { encodeV1, encodeV2 } from "../../../local/calls.ts";
import { type LocalChain, startLocalChain } from "../../../local/chain.ts";
import { compileContracts } from "../../../local/compile-contracts.ts";
import { networks } from "../../../registry/networks.ts";

// The chain that the earlier version has indexed. It is the same chain, with the same hashes, whenever it is started.

export const CHAIN_ID = 8453;
const STARTS_AT = new Date("2026-11-15T00:00:00Z");
/** More than Ponder may revert. */
const EMPTY_BLOCKS = 40;
const NFT: Address = "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D";
const COIN: Address = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48";

/** Starts the chain with its history, up to the newest block that the earlier version knows. The caller stops it. */
export const startEarlierChain = async () => {
  const chain = await startLocalChain(CHAIN_ID, await compileContracts(), { startsAt: STARTS_AT });
  const [vault, hot, gone] = chain.accounts as [Address, Address, Address];
  const v1 = networks.get(CHAIN_ID)?.v1?.address as Address;
  const v2 = networks.get(CHAIN_ID)?.v2?.address as Address;
  const blocks: [to: Address, data: Hex][][] = [
    [
      [v1, encodeV1("delegateForAll", [hot, true])],
      [v1, encodeV1("delegateForContract", [hot, NFT, true])],
      [v1, encodeV1("delegateForToken", [hot, NFT, 7n, true])],
      [v1, encodeV1("delegateForAll", [gone, true])],
    ],
    [
      [v2, encodeV2("delegateAll", [hot, zeroHash, true])],
      [v2, encodeV2("delegateContract", [hot, NFT, zeroHash, true])],
      [v2, encodeV2("delegateERC721", [hot, NFT, 7n, zeroHash, true])],
      [v2, encodeV2("delegateERC20", [gone, COIN, zeroHash, 10n ** 30n])],
      [v2, encodeV2("delegateAll", [gone, zeroHash, true])],
    ],
    [
      [v1, encodeV1("revokeDelegate", [gone])],
      [v2, encodeV2("delegateAll", [gone, zeroHash, false])],
    ],
    ...Array.from({ length: EMPTY_BLOCKS }, () => []),
  ];
  for (const [index, transactions] of blocks.entries()) {
    for (const [to, data] of transactions) {
      await chain.client.sendTransaction({ account: vault, chain: null, to, data, gas: 1_000_000n, gasPrice: 0n });
    }
    await mine(chain, STARTS_AT.getTime() / 1000 + 2 * (index + 1));
  }
  const pair = `delegate=${hot}&vault=${vault}`;
  const ofGone = `delegate=${gone}&vault=${vault}`;
  /** Questions with their answers at the newest block of the earlier version. */
  const answers: [path: string, answer: string][] = [
    [`/registry/v1/check/all?${pair}`, "true"],
    [`/registry/v1/check/contract?${pair}&contract=${NFT}`, "true"],
    [`/registry/v1/check/token?${pair}&contract=${NFT}&tokenId=7`, "true"],
    [`/registry/v1/check/all?${ofGone}`, "false"],
    [`/registry/v2/check/all?${pair}`, "true"],
    [`/registry/v2/check/all?${ofGone}`, "false"],
    [`/registry/v2/check/contract?${pair}&contract=${NFT}`, "true"],
    [`/registry/v2/check/erc721?${pair}&contract=${NFT}&tokenId=7`, "true"],
    [`/registry/v2/check/erc1155?${ofGone}&contract=${COIN}&tokenId=7`, "0"],
    [`/registry/v2/check/erc20?${ofGone}&contract=${COIN}`, String(10n ** 30n)],
  ];
  return { chain, vault, hot, v2, answers: answers.map(([path, answer]) => [`${path}&chainId=${CHAIN_ID}`, answer]) };
};

/** Mines a block at a time, in seconds. */
export const mine = async ({ client }: LocalChain, timestamp = Math.floor(Date.now() / 1000)): Promise<void> => {
  await client.setNextBlockTimestamp({ timestamp: BigInt(timestamp) });
  await client.mine({ blocks: 1 });
};
