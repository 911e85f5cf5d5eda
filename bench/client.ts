import { DelegateV2 } from "@delegatexyz/sdk";
import { type Address, http, zeroAddress, zeroHash } from "viem";
import { mainnet } from "viem/chains";
import { createClient } from "../client/src/index.ts";
import { encodeV2 } from "../local/calls.ts";
import type { LocalChain } from "../local/chain.ts";
import { networks } from "../registry/networks.ts";
import { compare } from "./comparison.ts";
import { CHAIN_ID, withLiveStack } from "./live-stack.ts";
import type { Case } from "./report.ts";
import { median } from "./rounds.ts";
import { createKey } from "./servers.ts";

// Measures checks through the client beside the same checks as single requests, and as calls of the registry.

type Options = { serverUrl: string; checks: number; rounds: number; log: (message: string) => void };
type Pair = { delegate: Address; vault: Address };
type Ask = (pair: Pair) => Promise<boolean>;

/** Single questions in flight. A call for each of all questions at once would wait for sockets. */
const IN_FLIGHT = 64;

export const measureClient = ({ serverUrl, checks, rounds, log }: Options): Promise<Case[]> =>
  withLiveStack({ serverUrl, name: "client", log }, async ({ chain, apiUrl, databaseUrl }) => {
    const pairs = await delegate(chain, checks);
    const options = { url: apiUrl, apiKey: await createKey(databaseUrl) };
    const [batched, single] = [createClient(options), createClient({ ...options, batch: false })];
    await untilIndexed(chain, apiUrl);
    const sdk = new DelegateV2({ userTransport: http(chain.url), chain: mainnet });
    const askSdk: Ask = ({ delegate, vault }) => sdk.checkDelegateForAll(delegate, vault);
    const subjects: { name: string; ask: Ask; inFlight: number }[] = [
      { name: "client", ask: batched.v2.checkAll, inFlight: checks },
      { name: "single requests", ask: single.v2.checkAll, inFlight: IN_FLIGHT },
      { name: "SDK's calls", ask: askSdk, inFlight: IN_FLIGHT },
    ];
    const perSecond = subjects.map((): number[] => []);
    let expected = "";
    for (let round = 0; round <= rounds; round++) {
      for (const [place, { name, ask, inFlight }] of subjects.entries()) {
        log(`${checks.toLocaleString("en")} checks, ${name}`);
        const startedAt = performance.now();
        const answers = (await askAll(pairs, ask, inFlight)).join();
        const seconds = (performance.now() - startedAt) / 1000;
        expected ||= answers;
        if (answers !== expected) throw new Error(`${name}: other answers than the client's.`);
        // The first round warms up.
        if (round > 0) perSecond[place]?.push(checks / seconds);
      }
    }
    const [ours = 0, ofSingle = 0, ofSdk = 0] = perSecond.map(median);
    return summarize(checks, { ours, ofSingle, ofSdk });
  });

const summarize = (
  checks: number,
  { ours, ofSingle, ofSdk }: Record<"ours" | "ofSingle" | "ofSdk", number>,
): Case[] => {
  const unit = "checks/s";
  const count = checks.toLocaleString("en");
  return [
    { name: `${count} checks, one eth_call each`, figures: { requestsPerSecond: ofSdk }, comparisons: [] },
    { name: `${count} checks, single requests`, figures: { requestsPerSecond: ofSingle }, comparisons: [] },
    {
      name: `${count} checks through the client`,
      figures: { requestsPerSecond: ours },
      comparisons: [
        compare({ baseline: "eth_call", unit, ours, theirs: ofSdk, target: { atLeast: 10 } }),
        compare({ baseline: "single requests", unit, ours, theirs: ofSingle, target: { atLeast: 3 } }),
      ],
    },
  ];
};

/** Asks in order, with some questions in flight. */
export const askAll = async <Asked, Answer>(
  questions: readonly Asked[],
  ask: (question: Asked) => Promise<Answer>,
  inFlight: number,
): Promise<Answer[]> => {
  const answers: Answer[] = [];
  let next = 0;
  const askInTurn = async () => {
    for (let question = questions[next]; question; question = questions[next]) {
      const place = next++;
      answers[place] = await ask(question);
    }
  };
  await Promise.all(Array.from({ length: Math.min(inFlight, questions.length) }, askInTurn));
  return answers;
};

export const untilIndexed = async ({ client }: LocalChain, url: string): Promise<void> => {
  const minBlock = await client.getBlockNumber();
  await createClient({ url, retries: 10 }).v2.checkAll({ delegate: zeroAddress, vault: zeroAddress, minBlock });
};

/** Delegates from half of the accounts to all others, and returns pairs of accounts in a random order. */
export const delegate = async (chain: LocalChain, count: number): Promise<Pair[]> => {
  const { accounts, client } = chain;
  const registry = networks.get(CHAIN_ID)?.v2?.address;
  if (!registry) throw new Error(`Chain ${CHAIN_ID} has no registry.`);
  for (const [place, vault] of accounts.entries()) {
    if (place % 2 === 0) continue;
    for (const delegate of accounts) {
      const data = encodeV2("delegateAll", [delegate, zeroHash, true]);
      await client.sendTransaction({ account: vault, chain: null, to: registry, data });
    }
    await client.mine({ blocks: 1 });
  }
  const draw = () => accounts[Math.floor(Math.random() * accounts.length)] ?? registry;
  return Array.from({ length: count }, () => ({ delegate: draw(), vault: draw() }));
};
