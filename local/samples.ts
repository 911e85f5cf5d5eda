import { type Address, type Hex, maxUint256, stringToHex, zeroHash } from "viem";
import { networks } from "../registry/networks.ts";
import { encodeV1, encodeV2, encodeWalletCalls } from "./calls.ts";
import type { LocalChain } from "./chain.ts";
import type { ContractCode } from "./compile-contracts.ts";

/** Contracts that the delegations name. They need no code. */
export const SAMPLE_NFT: Address = "0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d";
export const SAMPLE_COIN: Address = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
/** A contract wallet. */
const SAFE: Address = "0x5afe000000000000000000000000000000000001";

export const AIRDROP = stringToHex("airdrop", { size: 32 });

/** The number of a chain's accounts that the samples use. */
export const SAMPLE_WALLETS = 7;

export const findRegistries = (chainId: number) => {
  const v1 = networks.get(chainId)?.v1?.address;
  const v2 = networks.get(chainId)?.v2?.address;
  if (!v1 || !v2) throw new Error(`Chain ${chainId} does not have both registries.`);
  return { v1, v2 };
};

/**
 * Makes delegations of every kind in both registries and revokes some in every possible way, each in its own block.
 * @param secondsApart - added to the time between blocks
 */
export const sendSamples = async (chain: LocalChain, code: ContractCode, secondsApart = 0): Promise<void> => {
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
  const { v1, v2 } = findRegistries(chainId);

  const send = async (from: Address, to: Address, data: Hex) => {
    await client.sendTransaction({ account: from, chain: null, to, data, gas: 2_000_000n });
    await client.increaseTime({ seconds: secondsApart });
    await client.mine({ blocks: 1 });
  };
  const sendSafe = (...calls: Hex[]) =>
    send(vault, SAFE, encodeWalletCalls(calls.map((data) => ({ target: v1, data }))));
  const sendV1 = (from: Address, data: Hex) => send(from, v1, data);
  const sendV2 = (from: Address, data: Hex) => send(from, v2, data);

  await client.setCode({ address: SAFE, bytecode: code.ContractWallet });

  // v2: the whole wallet, a contract, a token, balances; with full rights and with one right only.
  await sendV2(vault, encodeV2("delegateAll", [hot, zeroHash, true]));
  await sendV2(vault, encodeV2("delegateAll", [friend, AIRDROP, true]));
  await sendV2(vault, encodeV2("delegateContract", [friend, SAMPLE_NFT, zeroHash, true]));
  await sendV2(vault, encodeV2("delegateERC721", [guest, SAMPLE_NFT, 8520n, zeroHash, true]));
  await sendV2(vault, encodeV2("delegateERC20", [guest, SAMPLE_COIN, zeroHash, 1_000_000n]));
  await sendV2(vault, encodeV2("delegateERC1155", [guest, SAMPLE_NFT, 7n, AIRDROP, 5n]));
  // A changed amount, and one that does not fit into a JavaScript number.
  await sendV2(vault, encodeV2("delegateERC20", [guest, SAMPLE_COIN, zeroHash, 250_000n]));
  await sendV2(other, encodeV2("delegateERC20", [hot, SAMPLE_COIN, zeroHash, 2n ** 200n]));
  // Several in one transaction.
  await sendV2(
    other,
    encodeV2("multicall", [
      [
        encodeV2("delegateERC721", [hot, SAMPLE_NFT, maxUint256, zeroHash, true]),
        encodeV2("delegateContract", [hot, SAMPLE_COIN, AIRDROP, true]),
        encodeV2("delegateAll", [other, zeroHash, true]),
      ],
    ]),
  );
  // Revoked: with enable = false, and with an amount of zero.
  await sendV2(vault, encodeV2("delegateAll", [gone, zeroHash, true]));
  await sendV2(vault, encodeV2("delegateAll", [gone, zeroHash, false]));
  await sendV2(vault, encodeV2("delegateERC1155", [gone, SAMPLE_NFT, 7n, zeroHash, 3n]));
  await sendV2(vault, encodeV2("delegateERC1155", [gone, SAMPLE_NFT, 7n, zeroHash, 0n]));

  // v1: the whole wallet, a contract, a token.
  await sendV1(vault, encodeV1("delegateForAll", [hot, true]));
  await sendV1(vault, encodeV1("delegateForContract", [friend, SAMPLE_NFT, true]));
  await sendV1(vault, encodeV1("delegateForToken", [guest, SAMPLE_NFT, 8520n, true]));
  // Revoked: a single delegation, a delegate by the vault, by the delegate itself, and all delegates at once.
  await sendV1(vault, encodeV1("delegateForContract", [gone, SAMPLE_COIN, true]));
  await sendV1(vault, encodeV1("delegateForContract", [gone, SAMPLE_COIN, false]));
  await sendV1(vault, encodeV1("delegateForAll", [gone, true]));
  await sendV1(vault, encodeV1("revokeDelegate", [gone]));
  await sendV1(vault, encodeV1("delegateForAll", [left, true]));
  await sendV1(left, encodeV1("revokeSelf", [vault]));
  await sendV1(other, encodeV1("delegateForAll", [hot, true]));
  await sendV1(other, encodeV1("delegateForToken", [hot, SAMPLE_NFT, 1n, true]));
  await sendV1(other, encodeV1("revokeAllDelegates", []));
  // Revoked by a contract wallet: the event does not name the delegate.
  await sendSafe(
    encodeV1("delegateForAll", [hot, true]),
    encodeV1("delegateForAll", [gone, true]),
    encodeV1("delegateForContract", [left, SAMPLE_NFT, true]),
  );
  await sendSafe(encodeV1("revokeDelegate", [gone]), encodeV1("revokeDelegate", [left]));
};
