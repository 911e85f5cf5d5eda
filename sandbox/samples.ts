import { type Address, encodeFunctionData, type Hex, maxUint256, parseAbi, stringToHex, zeroHash } from "viem";
import { registryV1Abi, registryV2Abi } from "../registry/abi.ts";
import { networks } from "../registry/networks.ts";
import type { LocalChain } from "./chain.ts";
import type { ContractCode } from "./contracts.ts";

export const contractWalletAbi = parseAbi([
  "function execute(address target, bytes data)",
  "function executeBatch(address[] targets, bytes[] data)",
]);

/** Contracts that delegations name. Nothing needs to be there. */
export const SAMPLE_NFT: Address = "0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d";
export const SAMPLE_COIN: Address = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
/** A wallet that is a contract. */
const SAFE: Address = "0x5afe000000000000000000000000000000000001";

const AIRDROP = stringToHex("airdrop", { size: 32 });

/** Makes delegations of every kind in both registries, and ends some in every way there is. */
export const sendSamples = async (chain: LocalChain, code: ContractCode): Promise<void> => {
  const { client, chainId } = chain;
  const [vault, hot, friend, guest, gone, left, other] = chain.accounts as [
    Address,
    Address,
    Address,
    Address,
    Address,
    Address,
    Address,
  ];
  const v1 = networks.get(chainId)?.v1?.address;
  const v2 = networks.get(chainId)?.v2?.address;
  if (!v1 || !v2) throw new Error(`Chain ${chainId} does not have both registries.`);

  const send = async (from: Address, to: Address, data: Hex) => {
    await client.sendTransaction({ account: from, chain: null, to, data, gas: 2_000_000n });
    await client.mine({ blocks: 1 });
  };
  type V1Call = Parameters<typeof encodeFunctionData<typeof registryV1Abi>>[0];
  type V2Call = Parameters<typeof encodeFunctionData<typeof registryV2Abi>>[0];
  const callV1 = (call: Omit<V1Call, "abi">) => encodeFunctionData({ abi: registryV1Abi, ...call } as V1Call);
  const callV2 = (call: Omit<V2Call, "abi">) => encodeFunctionData({ abi: registryV2Abi, ...call } as V2Call);
  const sendV1 = (from: Address, call: Omit<V1Call, "abi">) => send(from, v1, callV1(call));
  const sendV2 = (from: Address, call: Omit<V2Call, "abi">) => send(from, v2, callV2(call));
  const sendSafe = (calls: Hex[]) =>
    send(
      vault,
      SAFE,
      encodeFunctionData({ abi: contractWalletAbi, functionName: "executeBatch", args: [calls.map(() => v1), calls] }),
    );

  await client.setCode({ address: SAFE, bytecode: code.ContractWallet });

  // v2: the whole wallet, a contract, a token, balances; with full rights and with one right only.
  await sendV2(vault, { functionName: "delegateAll", args: [hot, zeroHash, true] });
  await sendV2(vault, { functionName: "delegateAll", args: [friend, AIRDROP, true] });
  await sendV2(vault, { functionName: "delegateContract", args: [friend, SAMPLE_NFT, zeroHash, true] });
  await sendV2(vault, { functionName: "delegateERC721", args: [guest, SAMPLE_NFT, 8520n, zeroHash, true] });
  await sendV2(vault, { functionName: "delegateERC20", args: [guest, SAMPLE_COIN, zeroHash, 1_000_000n] });
  await sendV2(vault, { functionName: "delegateERC1155", args: [guest, SAMPLE_NFT, 7n, AIRDROP, 5n] });
  // A changed amount, and one that does not fit into a JavaScript number.
  await sendV2(vault, { functionName: "delegateERC20", args: [guest, SAMPLE_COIN, zeroHash, 250_000n] });
  await sendV2(other, { functionName: "delegateERC20", args: [hot, SAMPLE_COIN, zeroHash, 2n ** 200n] });
  // Several in one transaction.
  await sendV2(other, {
    functionName: "multicall",
    args: [
      [
        callV2({ functionName: "delegateERC721", args: [hot, SAMPLE_NFT, maxUint256, zeroHash, true] }),
        callV2({ functionName: "delegateContract", args: [hot, SAMPLE_COIN, AIRDROP, true] }),
        callV2({ functionName: "delegateAll", args: [other, zeroHash, true] }),
      ],
    ],
  });
  // Revoked: by the switch, and by an amount of zero.
  await sendV2(vault, { functionName: "delegateAll", args: [gone, zeroHash, true] });
  await sendV2(vault, { functionName: "delegateAll", args: [gone, zeroHash, false] });
  await sendV2(vault, { functionName: "delegateERC1155", args: [gone, SAMPLE_NFT, 7n, zeroHash, 3n] });
  await sendV2(vault, { functionName: "delegateERC1155", args: [gone, SAMPLE_NFT, 7n, zeroHash, 0n] });

  // v1: the whole wallet, a contract, a token.
  await sendV1(vault, { functionName: "delegateForAll", args: [hot, true] });
  await sendV1(vault, { functionName: "delegateForContract", args: [friend, SAMPLE_NFT, true] });
  await sendV1(vault, { functionName: "delegateForToken", args: [guest, SAMPLE_NFT, 8520n, true] });
  // Revoked one by one, by the vault, by the delegate, and all at once.
  await sendV1(vault, { functionName: "delegateForContract", args: [gone, SAMPLE_COIN, true] });
  await sendV1(vault, { functionName: "delegateForContract", args: [gone, SAMPLE_COIN, false] });
  await sendV1(vault, { functionName: "delegateForAll", args: [gone, true] });
  await sendV1(vault, { functionName: "revokeDelegate", args: [gone] });
  await sendV1(vault, { functionName: "delegateForAll", args: [left, true] });
  await sendV1(left, { functionName: "revokeSelf", args: [vault] });
  await sendV1(other, { functionName: "delegateForAll", args: [hot, true] });
  await sendV1(other, { functionName: "delegateForToken", args: [hot, SAMPLE_NFT, 1n, true] });
  await sendV1(other, { functionName: "revokeAllDelegates" });
  // By a wallet that is a contract: the event does not say who was revoked.
  await sendSafe([
    callV1({ functionName: "delegateForAll", args: [hot, true] }),
    callV1({ functionName: "delegateForAll", args: [gone, true] }),
    callV1({ functionName: "delegateForContract", args: [left, SAMPLE_NFT, true] }),
  ]);
  await sendSafe([
    callV1({ functionName: "revokeDelegate", args: [gone] }),
    callV1({ functionName: "revokeDelegate", args: [left] }),
  ]);
};
