import { type Address, type Hex, zeroHash } from "viem";
import type { RegistryVersion } from "../registry/networks.ts";
import { encodeV1, encodeV2 } from "./calls.ts";
import type { LocalChain } from "./chain.ts";
import type { ContractCode } from "./compile-contracts.ts";
import { AIRDROP, findRegistries, SAMPLE_COIN, SAMPLE_NFT, SAMPLE_WALLETS, sendSamples } from "./samples.ts";

// Samples over the last six weeks: first those of samples.ts, one a day, then more and more changes by other wallets.

type Some<T> = readonly [T, ...T[]];

const DAY = 86_400;
const DAYS = 42;
/** Blocks after those of samples.ts. */
const BLOCKS = 36;
/** Changes per block, in turn. */
const RHYTHM: Some<number> = [1, 2, 0, 1, 3, 1, 2];

/** Popular contracts are listed more than once. */
const CONTRACTS: Some<Address> = [
  SAMPLE_NFT,
  "0xed5af388653567af2f388e6224dc7c4b3241c544",
  SAMPLE_NFT,
  "0xbd3531da5cf5857e7cfaa92426877b022e612cf8",
  "0xed5af388653567af2f388e6224dc7c4b3241c544",
];

const ON_OFF = [true, false];
const AMOUNTS = [40_000n, 65_000n, 50_000n, 0n];

type Kind = {
  registry: RegistryVersion;
  /** Encodes the calls in the life of a delegation: it is made, its amount may change, it is revoked. */
  encode: (to: Address, contract: Address, tokenId: bigint) => Hex[];
};

const KINDS: Some<Kind> = [
  { registry: "v2", encode: (to) => ON_OFF.map((on) => encodeV2("delegateAll", [to, zeroHash, on])) },
  { registry: "v2", encode: (to) => AMOUNTS.map((sum) => encodeV2("delegateERC20", [to, SAMPLE_COIN, zeroHash, sum])) },
  {
    registry: "v2",
    encode: (to, contract, id) => ON_OFF.map((on) => encodeV2("delegateERC721", [to, contract, id, zeroHash, on])),
  },
  { registry: "v1", encode: (to, contract) => ON_OFF.map((on) => encodeV1("delegateForContract", [to, contract, on])) },
  {
    registry: "v2",
    encode: (to, contract) => ON_OFF.map((on) => encodeV2("delegateContract", [to, contract, AIRDROP, on])),
  },
  { registry: "v1", encode: (to) => ON_OFF.map((on) => encodeV1("delegateForAll", [to, on])) },
];

type Change = { from: Address; registry: RegistryVersion; data: Hex };

const pick = <T>(list: Some<T>, number: number): T => list[number % list.length] ?? list[0];

/** Generates changes, always the same. After three new delegations comes the next step of the oldest one. */
function* generateChanges(wallets: Some<Address>): Generator<Change, never> {
  const later: Change[] = [];
  for (let number = 0; ; number++) {
    const from = pick(wallets, number);
    // Another delegate in each round.
    const to = pick(wallets, number + 1 + Math.floor(number / wallets.length));
    const { registry, encode } = pick(KINDS, number);
    const steps = encode(to, pick(CONTRACTS, number), BigInt(number)).map((data) => ({ from, registry, data }));
    yield* steps.splice(0, 1);
    later.push(...steps);
    if (number % 3 === 2) yield* later.splice(0, 1);
  }
}

/** When a chain has to start for its samples to span the last weeks. */
export const findHistoryStart = (): Date => new Date(Date.now() - DAYS * DAY * 1000);

/** Sends samples in blocks of the last weeks. The last block is from now, and the chain's clock goes on from there. */
export const sendSampleHistory = async (chain: LocalChain, code: ContractCode): Promise<void> => {
  await sendSamples(chain, code, DAY);
  const { client, chainId, accounts } = chain;
  const registries = findRegistries(chainId);
  const changes = generateChanges(accounts.slice(SAMPLE_WALLETS) as [Address, ...Address[]]);
  const start = Number((await client.getBlock()).timestamp);
  for (let block = 1; block <= BLOCKS; block++) {
    // Each chain starts elsewhere in the rhythm.
    for (let left = pick(RHYTHM, block + chainId); left > 0; left--) {
      const { from, registry, data } = changes.next().value;
      await client.sendTransaction({ account: from, chain: null, to: registries[registry], data, gas: 2_000_000n });
    }
    // Blocks become more frequent.
    const share = 1 - (1 - block / BLOCKS) ** 1.5;
    const timestamp = Math.floor(start + (Date.now() / 1000 - start) * share);
    await client.setNextBlockTimestamp({ timestamp: BigInt(timestamp) });
    await client.mine({ blocks: 1 });
  }
};
