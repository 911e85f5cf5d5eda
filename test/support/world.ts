import { type Address, encodeFunctionData, type Hex, maxUint256, stringToHex, zeroHash } from "viem";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import { networks } from "../../registry/networks.ts";
import type { LocalChain } from "../../sandbox/chain.ts";
import type { ContractCode } from "../../sandbox/contracts.ts";
import { contractWalletAbi } from "../../sandbox/samples.ts";
import type { Random } from "./random.ts";

/** Few of each, so that random operations meet each other often. */
export type World = {
  v1: Address;
  v2: Address;
  /** Wallets of people, then wallets that are contracts. */
  wallets: readonly [Wallet, ...Wallet[]];
  contracts: readonly [Address, ...Address[]];
  tokenIds: readonly [bigint, ...bigint[]];
  rights: readonly [Hex, ...Hex[]];
};

export type Wallet = { address: Address; isContract: boolean };

const CONTRACT_WALLETS: Address[] = [
  "0x5afe000000000000000000000000000000000001",
  "0x5afe000000000000000000000000000000000002",
];

/** Makes a chain ready for random operations. */
export const createWorld = async (chain: LocalChain, code: ContractCode): Promise<World> => {
  const network = networks.get(chain.chainId);
  if (!network?.v1 || !network.v2) throw new Error(`Chain ${chain.chainId} does not have both registries.`);
  for (const address of CONTRACT_WALLETS) {
    await chain.client.setCode({ address, bytecode: code.ContractWallet });
  }
  await chain.client.mine({ blocks: 1 });
  const [first, ...others] = chain.accounts.slice(1, 5).map((address) => ({ address, isContract: false }));
  if (!first) throw new Error("The local chain has no accounts.");
  return {
    v1: network.v1.address,
    v2: network.v2.address,
    wallets: [first, ...others, ...CONTRACT_WALLETS.map((address) => ({ address, isContract: true }))],
    contracts: ["0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d", "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"],
    tokenIds: [0n, 1n, maxUint256],
    rights: [zeroHash, stringToHex("airdrop", { size: 32 }), stringToHex("vote", { size: 32 })],
  };
};

type Call = { target: Address; data: Hex };

/** One transaction, and how many registry operations it carries. */
export type Transaction = { from: Address; to: Address; data: Hex; operations: number };

/** A random write to a registry, by the wallet that makes it. */
const randomCall = (random: Random, { v1, v2, wallets, contracts, tokenIds, rights }: World): Call => {
  const wallet = random.pick(wallets).address;
  const contract = random.pick(contracts);
  const tokenId = random.pick(tokenIds);
  const right = random.pick(rights);
  const on = random.chance(0.7);
  const amount = random.pick([0n, 1n, 5n, 2n ** 200n, maxUint256]);

  const ofV1 = (call: Parameters<typeof encodeFunctionData<typeof registryV1Abi>>[0]) => ({
    target: v1,
    data: encodeFunctionData(call),
  });
  const ofV2 = (call: Parameters<typeof encodeFunctionData<typeof registryV2Abi>>[0]) => ({
    target: v2,
    data: encodeFunctionData(call),
  });
  const abi = registryV1Abi;
  const abi2 = registryV2Abi;

  const writes: [() => Call, ...(() => Call)[]] = [
    () => ofV1({ abi, functionName: "delegateForAll", args: [wallet, on] }),
    () => ofV1({ abi, functionName: "delegateForContract", args: [wallet, contract, on] }),
    () => ofV1({ abi, functionName: "delegateForToken", args: [wallet, contract, tokenId, on] }),
    () => ofV1({ abi, functionName: "delegateForToken", args: [wallet, contract, tokenId, true] }),
    () => ofV1({ abi, functionName: "revokeDelegate", args: [wallet] }),
    () => ofV1({ abi, functionName: "revokeSelf", args: [wallet] }),
    () =>
      random.chance(0.3)
        ? ofV1({ abi, functionName: "revokeAllDelegates" })
        : ofV1({ abi, functionName: "revokeDelegate", args: [wallet] }),
    () => ofV2({ abi: abi2, functionName: "delegateAll", args: [wallet, right, on] }),
    () => ofV2({ abi: abi2, functionName: "delegateContract", args: [wallet, contract, right, on] }),
    () => ofV2({ abi: abi2, functionName: "delegateERC721", args: [wallet, contract, tokenId, right, on] }),
    () => ofV2({ abi: abi2, functionName: "delegateERC20", args: [wallet, contract, right, amount] }),
    () => ofV2({ abi: abi2, functionName: "delegateERC1155", args: [wallet, contract, tokenId, right, amount] }),
  ];
  return random.pick(writes)();
};

/** A random transaction: one call, a v2 multicall, or a batch by a wallet that is a contract. */
export const randomTransaction = (random: Random, world: World, payer: Address): Transaction => {
  const sender = random.pick(world.wallets);
  const call = () => randomCall(random, world);

  const calls = [call()];
  if (random.chance(0.2)) {
    // A multicall keeps its sender and takes calls to v2 only.
    const data = Array.from({ length: random.integer(2, 4) }, call).filter(({ target }) => target === world.v2);
    if (data.length > 0) {
      const multicall = encodeFunctionData({
        abi: registryV2Abi,
        functionName: "multicall",
        args: [data.map(({ data }) => data)],
      });
      return { ...asSender(sender, [{ target: world.v2, data: multicall }], payer), operations: data.length };
    }
  }
  if (sender.isContract && random.chance(0.6)) {
    calls.push(...Array.from({ length: random.integer(1, 3) }, call));
  }
  return { ...asSender(sender, calls, payer), operations: calls.length };
};

const asSender = (sender: Wallet, calls: Call[], payer: Address) => {
  const [call] = calls;
  if (!call) throw new Error("There is nothing to call.");
  if (!sender.isContract) return { from: sender.address, to: call.target, data: call.data };
  return {
    from: payer,
    to: sender.address,
    data:
      calls.length === 1
        ? encodeFunctionData({ abi: contractWalletAbi, functionName: "execute", args: [call.target, call.data] })
        : encodeFunctionData({
            abi: contractWalletAbi,
            functionName: "executeBatch",
            args: [calls.map(({ target }) => target), calls.map(({ data }) => data)],
          }),
  };
};
