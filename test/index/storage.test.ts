import {
  type Address,
  concatHex,
  encodeAbiParameters,
  type Hex,
  hexToBigInt,
  keccak256,
  maxUint256,
  numberToHex,
  pad,
  stringToHex,
  zeroHash,
} from "viem";
import { beforeAll, expect, test } from "vitest";
import { encodeV1, encodeV2 } from "../../local/calls.ts";
import type { LocalChain } from "../../local/chain.ts";
import { compileContracts } from "../../local/compile-contracts.ts";
import { launchChain, ReorgChain } from "../support/setup.ts";
import { buildTransaction, createWorld, type World } from "../support/world.ts";

// The stand-ins keep what decides a check where the deployed registries keep it: proofs depend on each slot.

const NFT = "0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d";
const COIN = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
const RIGHTS = stringToHex("airdrop", { size: 32 });
const TOKEN = maxUint256 - 1n;

let chain: LocalChain;
let mined: ReorgChain;
let world: World;
let vault: Address;
let delegate: Address;
let other: Address;

beforeAll(async () => {
  chain = await launchChain(1);
  world = await createWorld(chain, await compileContracts());
  mined = new ReorgChain(chain);
  const [first, second, third] = world.wallets.map(({ address }) => address.toLowerCase() as Address);
  if (!first || !second || !third) throw new Error("The world lacks wallets.");
  [vault, delegate, other] = [first, second, third];
  return () => chain.stop();
});

const send = (registry: "v1" | "v2", data: Hex, from = vault) => {
  const sender = world.wallets.find(({ address }) => address.toLowerCase() === from);
  if (!sender) throw new Error(`${from} is no wallet of the world.`);
  return mined.mine([buildTransaction(world, sender, [{ target: world[registry], data }])]);
};

const word = (value: Hex | bigint | number) =>
  typeof value === "string" ? pad(value) : numberToHex(value, { size: 32 });
const hashWords = (...words: (Hex | bigint | number)[]) => keccak256(concatHex(words.map(word)));
const after = (slot: Hex, words: bigint) => numberToHex(hexToBigInt(slot) + words, { size: 32 });

/** Reads words of a registry, and the same from a proof. */
const readWords = async (registry: "v1" | "v2", slots: readonly Hex[]) => {
  const address = world[registry];
  const words = await Promise.all(slots.map((slot) => chain.client.getStorageAt({ address, slot })));
  const { storageProof } = await chain.client.getProof({ address, storageKeys: [...slots] });
  expect(storageProof.map(({ value }) => word(value))).toEqual(words);
  return words;
};

test("v2 has five words of each delegation, at the hash of its identity", async () => {
  const part = `${NFT.slice(0, 18)}` as Hex;
  const rest = `0x${NFT.slice(18)}` as Hex;
  const first = (address: Address, start: Hex = "0x") => pad(concatHex([start, address]));
  const second = (end: Hex = "0x") => pad(concatHex([end, delegate]));
  const one = pad("0x01", { size: 20 });
  const kinds: {
    type: number;
    packed: Hex[];
    set: Hex;
    clear: Hex;
    words: [Hex, Hex, Hex, bigint, bigint];
    left: Hex;
  }[] = [
    {
      type: 1,
      packed: [],
      set: encodeV2("delegateAll", [delegate, RIGHTS, true]),
      clear: encodeV2("delegateAll", [delegate, RIGHTS, false]),
      words: [first(vault), second(), RIGHTS, 0n, 0n],
      left: first(one),
    },
    {
      type: 2,
      packed: [NFT],
      set: encodeV2("delegateContract", [delegate, NFT, RIGHTS, true]),
      clear: encodeV2("delegateContract", [delegate, NFT, RIGHTS, false]),
      words: [first(vault, part), second(rest), RIGHTS, 0n, 0n],
      left: first(one, part),
    },
    {
      type: 3,
      packed: [NFT, word(TOKEN)],
      set: encodeV2("delegateERC721", [delegate, NFT, TOKEN, RIGHTS, true]),
      clear: encodeV2("delegateERC721", [delegate, NFT, TOKEN, RIGHTS, false]),
      words: [first(vault, part), second(rest), RIGHTS, TOKEN, 0n],
      left: first(one, part),
    },
    {
      type: 4,
      packed: [NFT],
      set: encodeV2("delegateERC20", [delegate, NFT, RIGHTS, 250n]),
      clear: encodeV2("delegateERC20", [delegate, NFT, RIGHTS, 0n]),
      words: [first(vault, part), second(rest), RIGHTS, 0n, 250n],
      left: first(one, part),
    },
    {
      type: 5,
      packed: [NFT, word(TOKEN)],
      set: encodeV2("delegateERC1155", [delegate, NFT, TOKEN, RIGHTS, maxUint256]),
      clear: encodeV2("delegateERC1155", [delegate, NFT, TOKEN, RIGHTS, 0n]),
      words: [first(vault, part), second(rest), RIGHTS, TOKEN, maxUint256],
      left: first(one, part),
    },
  ];
  for (const { type, packed, set, clear, words, left } of kinds) {
    const identity = keccak256(concatHex([RIGHTS, vault, delegate, ...packed]));
    const hash = word((hexToBigInt(identity) * 256n + BigInt(type)) % 2n ** 256n);
    const location = hashWords(hash, 0);
    const read = () =>
      readWords(
        "v2",
        [0n, 1n, 2n, 3n, 4n].map((place) => after(location, place)),
      );
    const written = words.map(word);

    expect(await read(), `type ${type}, never made`).toEqual(Array(5).fill(zeroHash));
    await send("v2", clear);
    expect(await read(), `type ${type}, revoked but never made`).toEqual(Array(5).fill(zeroHash));
    await send("v2", set);
    expect(await read(), `type ${type}, active`).toEqual(written);
    await send("v2", clear);
    expect(await read(), `type ${type}, revoked`).toEqual([left, ...written.slice(1, 4), zeroHash]);
    await send("v2", set);
    expect(await read(), `type ${type}, made again`).toEqual(written);
  }
  await send("v2", encodeV2("delegateERC20", [delegate, COIN, zeroHash, 1n]));
  await send("v2", encodeV2("delegateERC20", [delegate, COIN, zeroHash, 7n]));
  const identity = keccak256(concatHex([zeroHash, vault, delegate, COIN]));
  const location = hashWords((hexToBigInt(identity) * 256n + 4n) % 2n ** 256n, 0);
  expect(await readWords("v2", [after(location, 4n)]), "a new amount").toEqual([word(7)]);
});

test("v1 has versions of vaults and delegates, and the positions of a vault's delegations", async () => {
  const vaultVersion = hashWords(vault, 1);
  const versionOf = (wallet: Address) => hashWords(wallet, hashWords(vault, 2));
  const identities: [Hex, bigint[]][] = [
    [encodeV1("delegateForAll", [delegate, true]), []],
    [encodeV1("delegateForContract", [delegate, NFT, true]), [hexToBigInt(NFT)]],
    [encodeV1("delegateForToken", [delegate, NFT, TOKEN, true]), [hexToBigInt(NFT), TOKEN]],
  ];
  /** The slots with the size of the vault's set, and the positions of the delegations to a wallet. */
  const slotsAt = (version: bigint, wallet: Address, delegateVersion: bigint) => {
    const base = hashWords(version, hashWords(vault, 0));
    const positions = identities.map(([, scope]) => {
      const words = [hexToBigInt(wallet), hexToBigInt(vault), ...scope, version, delegateVersion];
      const hash = keccak256(
        encodeAbiParameters(
          words.map(() => ({ type: "uint256" })),
          words,
        ),
      );
      return hashWords(hash, after(base, 1n));
    });
    return [base, ...positions];
  };
  const read = async (version: bigint, wallet: Address, delegateVersion: bigint) => {
    const [vaults, delegates, ...rest] = await readWords("v1", [
      vaultVersion,
      versionOf(wallet),
      ...slotsAt(version, wallet, delegateVersion),
    ]);
    return [vaults, delegates, ...rest].map((value) => hexToBigInt(value ?? "0x"));
  };

  expect(await read(0n, delegate, 0n), "never made").toEqual([0n, 0n, 0n, 0n, 0n, 0n]);
  await send("v1", encodeV1("delegateForAll", [other, true]));
  for (const [call] of identities) await send("v1", call);
  expect(await read(0n, delegate, 0n), "active").toEqual([0n, 0n, 4n, 2n, 3n, 4n]);
  expect(await read(0n, other, 0n)).toEqual([0n, 0n, 4n, 1n, 0n, 0n]);

  await send("v1", encodeV1("delegateForAll", [delegate, false]));
  expect(await read(0n, delegate, 0n), "the last takes the place of a cleared one").toEqual([0n, 0n, 3n, 0n, 3n, 2n]);
  await send("v1", encodeV1("delegateForAll", [delegate, true]));
  expect(await read(0n, delegate, 0n), "made again").toEqual([0n, 0n, 4n, 4n, 3n, 2n]);

  await send("v1", encodeV1("revokeDelegate", [delegate]));
  expect(await read(0n, delegate, 1n), "after revokeDelegate").toEqual([0n, 1n, 4n, 0n, 0n, 0n]);
  await send("v1", encodeV1("revokeSelf", [vault]), delegate);
  expect(await read(0n, delegate, 2n), "after revokeSelf").toEqual([0n, 2n, 4n, 0n, 0n, 0n]);
  await send("v1", encodeV1("delegateForContract", [delegate, NFT, true]));
  expect(await read(0n, delegate, 2n), "afresh").toEqual([0n, 2n, 5n, 0n, 5n, 0n]);

  await send("v1", encodeV1("revokeAllDelegates", []));
  expect(await read(1n, delegate, 2n), "after revokeAllDelegates").toEqual([1n, 2n, 0n, 0n, 0n, 0n]);
  expect(await read(1n, other, 0n)).toEqual([1n, 0n, 0n, 0n, 0n, 0n]);
  await send("v1", encodeV1("delegateForToken", [delegate, NFT, TOKEN, true]));
  expect(await read(1n, delegate, 2n), "of the new version").toEqual([1n, 2n, 1n, 0n, 0n, 1n]);
});
