import { DelegateV1 as SdkV1, DelegateV2 as SdkV2 } from "@delegatexyz/sdk";
import { DelegateCash as SdkCash } from "delegatecash";
import { ethers } from "ethers";
import { type Address, http, maxUint256, zeroHash } from "viem";
import { base } from "viem/chains";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readChain } from "../../client/src/chain.ts";
import { createClient, type RegistryClient, RegistryError } from "../../client/src/index.ts";
import { DelegateCash, DelegateV1, DelegateV2 } from "../../client/src/sdk.ts";
import { encodeV1 } from "../../local/calls.ts";
import { findFreePort } from "../../process/ports.ts";
import { listQuestions } from "../support/answers.ts";
import { type Api, launchApi } from "../support/api.ts";
import { launchIndexedSubject } from "../support/indexed-chain.ts";
import { waitUntilIndexed } from "../support/setup.ts";
import { buildTransaction } from "../support/world.ts";

// The adapters beside the packages whose methods they have, and verified answers. test/index/differential.test.ts
// compares the client's checks and lists with the registries.

let indexed: Awaited<ReturnType<typeof launchIndexedSubject>>;
let api: Api;
let registry: RegistryClient;
beforeAll(async () => {
  indexed = await launchIndexedSubject(23, 40);
  const { subject, database } = indexed;
  const [wallet, other] = subject.world.wallets;
  const [contract] = subject.world.contracts;
  const data = encodeV1("delegateForToken", [other?.address ?? wallet.address, contract, maxUint256, true]);
  await subject.chain.mine([buildTransaction(subject.world, wallet, [{ target: subject.world.v1, data }])]);
  await waitUntilIndexed(database, subject.local);
  api = await launchApi({ databaseUrl: indexed.databaseUrl });
  registry = createClient({ url: api.url });
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await indexed?.stop();
});

/** Takes every nth value. */
const takeEach = <Value>(nth: number, all: readonly Value[]): Value[] => all.filter((_, place) => place % nth === 0);

test("of checks that are asked together, each fails alone", async () => {
  const [vault, delegate] = indexed.subject.world.wallets.map(({ address }) => address);
  const pair = { vault: vault as Address, delegate: delegate as Address };
  const results = await registry.checks([
    { registry: "v2", check: "all", ...pair, chainId: base.id },
    { registry: "v2", check: "all", ...pair, chainId: 10 },
    { registry: "v2", check: "all", ...pair, delegate: "0x12", chainId: base.id },
    { registry: "v2", check: "erc20", ...pair, contract: "0x", rights: "r".repeat(40), chainId: base.id },
    { registry: "v1", check: "all", ...pair, chainId: base.id },
  ]);
  const [first, otherNetwork, badAddress, badScope, last] = results;
  for (const answered of [first, last]) expect(answered?.value).toBeTypeOf("boolean");
  for (const failed of [otherNetwork, badAddress, badScope]) {
    expect(failed?.error).toMatchObject({ status: 400, isRetryable: false });
  }
});

test("history is the newest first, in pages of the limit", async () => {
  const [wallet] = indexed.subject.world.wallets;
  const history = await registry.history(wallet.address, { limit: 5 }).all();
  expect(history.length).toBeGreaterThan(5);
  const blocks = history.map(({ blockNumber }) => blockNumber);
  expect(blocks).toEqual(blocks.toSorted((a, b) => Number(b - a)));
  const pages: number[] = [];
  for await (const { rows } of registry.history(wallet.address, { limit: 5 }).pages()) pages.push(rows.length);
  expect(pages.slice(0, -1)).toEqual(pages.slice(0, -1).map(() => 5));
});

test("networks have their state", async () => {
  const networks = await registry.networks();
  expect(networks.find(({ chainId }) => chainId === base.id)).toMatchObject({ state: "fresh" });
});

/** A method of a package, and its arguments. */
type Question = readonly [method: string, ...args: unknown[]];
type Reads = Record<string, (...args: unknown[]) => Promise<unknown>>;

/** Lists have the order of the registry's storage there, and of the events here. */
const normalize = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map((row) => JSON.stringify(normalize(row))).sort();
  if (typeof value === "string") return value.toLowerCase();
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, normalize(field)]));
};

const isRounded = (value: unknown): boolean =>
  typeof value === "object" && value !== null
    ? Object.values(value).some(isRounded)
    : typeof value === "number" && !Number.isSafeInteger(value);

const AT_ONCE = 100;

/** Compares answers. Where a package rounds, the adapter throws: returns the methods that do. */
const compareAll = async (theirs: object, ours: object, questions: readonly Question[]): Promise<string[]> => {
  const rounding = new Set<string>();
  const ask = async (reads: object, [method, ...args]: Question) => await (reads as Reads)[method]?.(...args);
  const compare = async (question: Question) => {
    const expected = await ask(theirs, question);
    if (isRounded(expected)) {
      rounding.add(question[0]);
      await expect(ask(ours, question), `${question}`).rejects.toThrow(/use v[12]\.\w+\(\), which returns a bigint/);
    } else expect(normalize(await ask(ours, question)), `${question}`).toEqual(normalize(expected));
  };
  for (let start = 0; start < questions.length; start += AT_ONCE) {
    await Promise.all(questions.slice(start, start + AT_ONCE).map(compare));
  }
  return [...rounding].sort();
};

const listArguments = () => {
  const { wallets, contracts, tokenIds, rights } = indexed.subject.world;
  const addresses = wallets.map(({ address }) => address);
  const pairs = addresses.flatMap((to) => addresses.map((from) => [to, from] as const));
  // The packages take numbers.
  const ids = tokenIds.filter((id) => id <= Number.MAX_SAFE_INTEGER).map(Number);
  const tokens = contracts.flatMap((contract) => ids.map((id) => [contract, id] as const));
  return { addresses, pairs, contracts, tokens, rights };
};

const listV1Questions = (): Question[] => {
  const { addresses, pairs, contracts, tokens } = listArguments();
  return [
    ...pairs.flatMap((pair): Question[] => [
      ["checkDelegateForAll", ...pair],
      ...contracts.map((contract): Question => ["checkDelegateForContract", ...pair, contract]),
      ...tokens.map((token): Question => ["checkDelegateForToken", ...pair, ...token]),
    ]),
    ...addresses.flatMap((wallet): Question[] => [
      ["getDelegatesForAll", wallet],
      ["getContractLevelDelegations", wallet],
      ["getTokenLevelDelegations", wallet],
      ["getDelegationsByDelegate", wallet],
      ...contracts.map((contract): Question => ["getDelegatesForContract", wallet, contract]),
      ...tokens.map((token): Question => ["getDelegatesForToken", wallet, ...token]),
    ]),
  ];
};

const listV2Questions = (): Question[] => {
  const { addresses, pairs, contracts, tokens, rights } = listArguments();
  const withRights = (...question: Question) => [undefined, ...rights].map((right): Question => [...question, right]);
  const checks = pairs.flatMap((pair): Question[] => [
    ...withRights("checkDelegateForAll", ...pair),
    ...contracts.flatMap((contract) => withRights("checkDelegateForContract", ...pair, contract)),
    ...contracts.flatMap((contract) => withRights("checkDelegateForERC20", ...pair, contract)),
    ...tokens.flatMap((token) => withRights("checkDelegateForERC721", ...pair, ...token)),
    ...tokens.flatMap((token) => withRights("checkDelegateForERC1155", ...pair, ...token)),
  ]);
  return [
    ...takeEach(5, checks),
    ...addresses.flatMap((wallet): Question[] => [
      ["getIncomingDelegations", wallet],
      ["getOutgoingDelegations", wallet],
    ]),
  ];
};

/** Methods whose answers the packages round. */
const ROUNDED_V1 = ["getDelegationsByDelegate", "getTokenLevelDelegations"];
const ROUNDED_V2 = [
  "checkDelegateForERC1155",
  "checkDelegateForERC20",
  "getIncomingDelegations",
  "getOutgoingDelegations",
];

test("DelegateV1 answers as the one of @delegatexyz/sdk, and throws where that rounds", async () => {
  const theirs = new SdkV1(http(indexed.subject.local.url), base);
  const ours = new DelegateV1(http(api.url), base);
  expect(await compareAll(theirs, ours, listV1Questions())).toEqual(ROUNDED_V1);
});

test("DelegateCash answers as the one of delegatecash, and throws where that rounds", async () => {
  const provider = new ethers.providers.StaticJsonRpcProvider(indexed.subject.local.url, base.id);
  const theirs = new SdkCash(provider);
  expect(await compareAll(theirs, new DelegateCash(registry, base), listV1Questions())).toEqual(ROUNDED_V1);
});

test("DelegateV2 answers as the one of @delegatexyz/sdk, and throws where that rounds", async () => {
  const theirs = new SdkV2({ userTransport: http(indexed.subject.local.url), chain: base });
  const ours = new DelegateV2({ userTransport: http(api.url), chain: base });
  const questions = listV2Questions();
  expect(await compareAll(theirs, ours, questions)).toEqual(ROUNDED_V2);
  // The constructor of earlier versions.
  await compareAll(theirs, new DelegateV2(http(api.url), base), takeEach(7, questions));
});

describe("verified answers", () => {
  const verified = (options: object) =>
    createClient({ url: api.url, chain: readChain({ [base.id]: indexed.subject.local.client as never }), ...options });
  const question = (): { delegate: Address; vault: Address; chainId: number } => {
    const [to, from] = listArguments().pairs[1] ?? [];
    return { delegate: to as Address, vault: from as Address, chainId: base.id };
  };

  test("agree with the registry, for checks of every kind", async () => {
    const checks = takeEach(13, listQuestions(indexed.subject.world));
    expect(new Set(checks.map(({ registry, check }) => `${registry} ${check}`)).size).toBe(8);
    const results = await verified({ verify: true }).checks(checks.map((check) => ({ ...check, chainId: base.id })));
    expect(results.filter(({ error }) => error)).toEqual([]);
  });

  test("of a network without a client throw", async () => {
    const client = createClient({ url: api.url, chain: readChain({}), verify: true });
    await expect(client.v2.checkAll(question())).rejects.toThrow("there is no client of this chain");
  });

  test("a difference throws, and names both", async () => {
    const truth = await verified({}).v2.checkAll(question());
    const lying: typeof fetch = async (...args) => {
      const response = await fetch(...args);
      return new Response(JSON.stringify(!truth), { status: 200, headers: response.headers });
    };
    const error = await verified({ verify: true, fetch: lying })
      .v2.checkAll(question())
      .catch((error: unknown) => error);
    expect(error).toBeInstanceOf(RegistryError);
    expect((error as Error).message).toMatch(
      new RegExp(
        `^The service answers ${!truth}, the v2 registry of chain 8453 answers ${truth}: check all at block \\d+\\.$`,
      ),
    );
  });

  test("the registry answers where the service cannot, if asked to", async () => {
    const truth = await verified({}).v2.checkAll(question());
    const down = { url: `http://127.0.0.1:${await findFreePort()}`, retries: 0 };
    expect(await verified({ ...down, fallback: "chain" }).v2.checkAll(question())).toBe(truth);
    await expect(verified(down).v2.checkAll(question())).rejects.toBeInstanceOf(RegistryError);
    // The node may be behind that block.
    const atLeast = { ...question(), minBlock: 1 };
    await expect(verified({ ...down, fallback: "chain" }).v2.checkAll(atLeast)).rejects.toBeInstanceOf(RegistryError);
  });

  test("of a node that cannot answer throw, also with a fallback", async () => {
    const client = { readContract: () => Promise.reject(new Error("header not found")) };
    const chain = readChain({ [base.id]: client as never });
    const registry = createClient({ url: api.url, chain, verify: true, fallback: "chain" });
    await expect(registry.v2.checkAll(question())).rejects.toThrow("header not found");
  });

  test("have the rights of the question, in every way to write them", async () => {
    const [, right] = indexed.subject.world.rights;
    const [contract] = indexed.subject.world.contracts;
    const client = verified({ verify: true });
    for (const [delegate, vault] of listArguments().pairs) {
      const upper = (address: Address) => `0x${address.slice(2).toUpperCase()}` as const;
      const token = { delegate: upper(delegate), vault: upper(vault), contract: upper(contract), chainId: base.id };
      const ask = (rights?: string) => client.v2.checkErc20({ ...token, ...(rights !== undefined && { rights }) });
      expect(await ask("airdrop")).toBe(await ask(right));
      for (const none of ["", "0x", "0X", zeroHash]) expect(await ask(none)).toBe(await ask());
    }
    const down = verified({ url: `http://127.0.0.1:${await findFreePort()}`, retries: 0, fallback: "chain" });
    await expect(down.v2.checkAll({ ...question(), rights: "0x61697264726f70" })).rejects.toThrow("64 hex digits");
  });
});
