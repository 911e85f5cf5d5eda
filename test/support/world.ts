import { type Address, type Hex, maxUint256, stringToHex, zeroHash } from "viem";
import { type Call, encodeV1, encodeV2, encodeWalletCalls } from "../../local/calls.ts";
import type { LocalChain } from "../../local/chain.ts";
import type { ContractCode } from "../../local/compile-contracts.ts";
import { networks } from "../../registry/networks.ts";
import type { Random } from "./random.ts";

/** Parameters of random operations: few of each, so that operations often affect each other. */
export type World = {
  v1: Address;
  v2: Address;
  /** Sends the transactions of contract wallets. */
  payer: Address;
  /** Wallets with a private key, then contract wallets. */
  wallets: readonly [WorldWallet, ...WorldWallet[]];
  contracts: readonly [Address, ...Address[]];
  tokenIds: readonly [bigint, ...bigint[]];
  rights: readonly [Hex, ...Hex[]];
};

export type WorldWallet = { address: Address; isContract: boolean };

const CONTRACT_WALLETS: Address[] = [
  "0x5afe000000000000000000000000000000000001",
  "0x5afe000000000000000000000000000000000002",
];

/** Prepares a chain for random operations. */
export const createWorld = async (chain: LocalChain, code: ContractCode): Promise<World> => {
  const network = networks.get(chain.chainId);
  if (!network?.v1 || !network.v2) throw new Error(`Chain ${chain.chainId} does not have both registries.`);
  for (const address of CONTRACT_WALLETS) {
    await chain.client.setCode({ address, bytecode: code.ContractWallet });
  }
  await chain.client.mine({ blocks: 1 });
  const [payer, ...accounts] = chain.accounts;
  const [first, ...others] = accounts.slice(0, 4).map((address) => ({ address, isContract: false }));
  if (!payer || !first) throw new Error("The local chain has no accounts.");
  return {
    payer,
    v1: network.v1.address,
    v2: network.v2.address,
    wallets: [first, ...others, ...CONTRACT_WALLETS.map((address) => ({ address, isContract: true }))],
    contracts: ["0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d", "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"],
    tokenIds: [0n, 1n, maxUint256],
    rights: [zeroHash, stringToHex("airdrop", { size: 32 }), stringToHex("vote", { size: 32 })],
  };
};

/** A transaction, with its number of registry operations. */
export type Transaction = { from: Address; to: Address; data: Hex; operations: number };

/** Draws a random write. */
const drawCall = (random: Random, world: World): Call => {
  const { v1, v2, wallets, contracts, tokenIds, rights } = world;
  const wallet = random.pick(wallets).address;
  const contract = random.pick(contracts);
  const tokenId = random.pick(tokenIds);
  const right = random.pick(rights);
  const on = random.chance(0.7);
  const amount = random.pick([0n, 1n, 5n, 2n ** 200n, maxUint256]);

  const ofV1 = (data: Hex) => ({ target: v1, data });
  const ofV2 = (data: Hex) => ({ target: v2, data });
  const writes: [() => Call, ...(() => Call)[]] = [
    () => ofV1(encodeV1("delegateForAll", [wallet, on])),
    () => ofV1(encodeV1("delegateForContract", [wallet, contract, on])),
    () => ofV1(encodeV1("delegateForToken", [wallet, contract, tokenId, on])),
    () => ofV1(encodeV1("delegateForToken", [wallet, contract, tokenId, true])),
    () => ofV1(encodeV1("revokeDelegate", [wallet])),
    () => ofV1(encodeV1("revokeSelf", [wallet])),
    () => (random.chance(0.3) ? ofV1(encodeV1("revokeAllDelegates", [])) : ofV1(encodeV1("revokeDelegate", [wallet]))),
    () => ofV2(encodeV2("delegateAll", [wallet, right, on])),
    () => ofV2(encodeV2("delegateContract", [wallet, contract, right, on])),
    () => ofV2(encodeV2("delegateERC721", [wallet, contract, tokenId, right, on])),
    () => ofV2(encodeV2("delegateERC20", [wallet, contract, right, amount])),
    () => ofV2(encodeV2("delegateERC1155", [wallet, contract, tokenId, right, amount])),
  ];
  return random.pick(writes)();
};

/** Draws a random transaction: one call, a v2 multicall, or a batch by a contract wallet. */
export const drawTransaction = (random: Random, world: World): Transaction => {
  const sender = random.pick(world.wallets);
  const call = () => drawCall(random, world);

  if (random.chance(0.2)) {
    // A multicall keeps its sender, and accepts calls to v2 only.
    const calls = Array.from({ length: random.integer(2, 6) }, call).filter(({ target }) => target === world.v2);
    const multicall = { target: world.v2, data: encodeV2("multicall", [calls.map(({ data }) => data)]) };
    return { ...buildTransaction(world, sender, [multicall]), operations: calls.length };
  }
  const batched = sender.isContract && random.chance(0.6) ? random.integer(1, 3) : 0;
  return buildTransaction(world, sender, [call(), ...Array.from({ length: batched }, call)]);
};

/** Builds a wallet's transaction. Only a contract wallet can make several calls in one. */
export const buildTransaction = (world: World, sender: WorldWallet, calls: readonly Call[]): Transaction => {
  const operations = calls.length;
  if (sender.isContract) return { from: world.payer, to: sender.address, data: encodeWalletCalls(calls), operations };

  const [call, ...others] = calls;
  if (!call || others.length > 0) throw new Error(`${sender.address} can make only one call in a transaction.`);
  return { from: sender.address, to: call.target, data: call.data, operations };
};
