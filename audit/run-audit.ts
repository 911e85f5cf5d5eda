import type pg from "pg";
import { type Address, BaseError, BlockNotFoundError, type Hash } from "viem";
import { getBlock } from "viem/actions";
import type { Network, RegistryVersion } from "../registry/networks.ts";
import { type Block, CannotAuditError, OtherForkError } from "./cannot-audit.ts";
import type { Delegation, Side } from "./delegation.ts";
import { Differences } from "./differences.ts";
import { RegistryReader } from "./read-chain.ts";
import { EventReader } from "./read-events.ts";
import { type IndexedChain, readIndexedChain, readSnapshot, recallStartBlock } from "./read-index.ts";
import { isTooMuch, type Rpc, saidBy } from "./rpc.ts";
import { draw, drawWallets, groupByWallet } from "./wallets.ts";

const REGISTRIES: readonly RegistryVersion[] = ["v1", "v2"];
const SIDES: readonly Side[] = ["outgoing", "incoming"];

/** How many delegations are asked about with checks, of those in the log and of those in events each. */
const MOST_ASKED = 500;

/** A reorg takes an indexer a few seconds to undo. */
const ATTEMPTS = 5;
const ATTEMPT_MS = 2_000;

const PROGRESS_MS = 5_000;

type Options = {
  network: Network;
  database: pg.Client;
  rpc: Rpc;
  /** How many wallets to compare; null: all. */
  sample: number | null;
  /** null: the newest indexed one. */
  block: bigint | null;
  say: (text: string) => void;
  wait: (ms: number) => Promise<unknown>;
};

export type Report = {
  block: Block;
  wallets: number;
  delegations: number;
  checks: number;
  differences: readonly string[];
  /** Lists that the node could not give, and that nothing else makes up for. */
  unread: readonly string[];
};

/** Compares what the index says with what the registries themselves say, at one block. */
export const runAudit = async (options: Options): Promise<Report> => {
  const events = await readEvents(options);
  for (let attempt = 1; ; attempt++) {
    try {
      return await compareAtOneBlock(options, events);
    } catch (error) {
      if (!(error instanceof OtherForkError)) throw error;
      if (attempt === ATTEMPTS) return reportFork(error);
      options.say("Index and chain are not at the same block: a reorg, or a node that lags. Starting over.");
    }
    await options.wait(ATTEMPT_MS);
  }
};

const reportFork = ({ block, actual, message }: OtherForkError): Report => {
  if (actual === null) {
    throw new CannotAuditError(
      `The RPC does not know block ${block.number}, which is indexed: it lags behind. Try again, or name another one.`,
    );
  }
  return { block, wallets: 0, delegations: 0, checks: 0, differences: [message], unread: [] };
};

type Events = { reader: EventReader; last: bigint };

/** The registries' events up to the newest block, of all blocks or of some: they name wallets that the index may not know. */
const readEvents = async ({ network, database, rpc, sample, block, say }: Options): Promise<Events> => {
  const chain = await readIndexedChain(database, network.chainId, block);
  const last = block ?? chain.block;
  const first = await findFirstBlock(database, network, chain, last);
  const reader = new EventReader(
    rpc,
    REGISTRIES.flatMap((registry) => chain.addresses[registry] ?? []),
  );
  const tell = throttle(say);
  try {
    if (sample !== null) await reader.readSome(first, last, sample / 2);
    else await reader.readAll(first, last, (read) => tell(() => `Events up to block ${read} of ${last} are read.`));
  } catch (error) {
    throw explain(error);
  }
  return { reader, last };
};

/** No later than the registries' first event. */
const findFirstBlock = async (database: pg.Client, network: Network, chain: IndexedChain, last: bigint) => {
  const blocks: number[] = [];
  for (const registry of REGISTRIES) {
    const deployment = network[registry];
    if (!deployment || chain.addresses[registry] === null) continue;
    const proven = deployment.startBlock ?? deployment.startBlockFloor;
    blocks.push(proven ?? (await recallStartBlock(database, network.chainId, registry)));
  }
  const first = BigInt(Math.min(...blocks));
  // A local chain that stands in for a network has the registries from the start.
  return first <= last ? first : 0n;
};

const compareAtOneBlock = async (options: Options, { reader: events, last }: Events): Promise<Report> => {
  const { database, rpc, network, sample, say } = options;
  const asked = Math.min(sample ?? MOST_ASKED, MOST_ASKED);
  const snapshot = await readSnapshot(database, {
    chainId: network.chainId,
    block: options.block,
    asked,
    alsoAsked: draw(asked, events.delegations),
  });
  const { delegations, checks, addresses } = snapshot;
  const newest = { number: snapshot.block, hash: snapshot.hash };
  await requireSameFork(rpc, newest);
  const block = options.block === null ? newest : await fetchBlock(rpc, options.block);
  say(`At block ${block.number} (${block.hash}) the index has ${delegations.length} delegations.`);

  const registries = await RegistryReader.open(rpc, block, addresses);
  /** Why a request failed: the block is gone, its state is, or the node is. Otherwise it was too much to ask. */
  const explainRequest = async (error: unknown): Promise<void> => {
    if (!isTooMuch(error)) throw explain(error);
    await requireSameFork(rpc, block);
    await RegistryReader.open(rpc, block, addresses);
  };

  // The index may have gone on since the events were read.
  if (sample === null) await events.readAll(last + 1n, block.number, () => {});
  const wallets = drawWallets(delegations, events.wallets, sample);
  const listOf = groupByWallet(delegations, wallets);
  const differences = new Differences();
  const compared = new Set<Delegation>();
  const unread: string[] = [];

  const compareList = async (registry: RegistryVersion, side: Side, wallet: Address) => {
    const indexed = listOf(registry, side, wallet);
    try {
      differences.addLists(indexed, await registries.readList(registry, side, wallet));
      for (const delegation of indexed) compared.add(delegation);
    } catch (error) {
      await explainRequest(error);
      // Anybody can make an incoming list too long for a node. With all wallets, all of it is in outgoing ones too.
      if (sample === null && side === "incoming") return;
      unread.push(`The ${side} ${registry} delegations of ${wallet} cannot be read: ${saidBy(error)}`);
    }
  };
  let done = 0;
  const tell = throttle(say);
  await rpc.forEach(wallets, async (wallet) => {
    for (const registry of REGISTRIES) for (const side of SIDES) await compareList(registry, side, wallet);
    done++;
    tell(() => `${done} of ${wallets.size} wallets are compared: ${differences.size} differences.`);
  });

  await rpc.forEach(checks, async ({ question, answer }) => {
    try {
      differences.addCheck(question, answer, await registries.check(question));
    } catch (error) {
      await explainRequest(error);
      throw explain(error);
    }
  });
  if (registries.readByNumber) await requireSameFork(rpc, block);

  return {
    block,
    wallets: wallets.size,
    delegations: compared.size,
    checks: checks.length,
    differences: differences.lines,
    unread,
  };
};

/** Throws an OtherForkError where the chain does not have this block. */
const requireSameFork = async (rpc: Rpc, block: Block): Promise<void> => {
  const actual = await fetchHash(rpc, block.number);
  if (actual !== block.hash) throw new OtherForkError(block, actual);
};

const fetchBlock = async (rpc: Rpc, number: bigint): Promise<Block> => {
  const hash = await fetchHash(rpc, number);
  if (hash === null) throw new CannotAuditError(`The RPC does not know block ${number}. Name another one.`);
  return { number, hash };
};

const fetchHash = async (rpc: Rpc, blockNumber: bigint): Promise<Hash | null> => {
  try {
    const { hash } = await rpc.ask((client) => getBlock(client, { blockNumber }));
    return hash;
  } catch (error) {
    if (error instanceof BlockNotFoundError) return null;
    throw explain(error);
  }
};

const explain = (error: unknown): unknown =>
  error instanceof BaseError
    ? new CannotAuditError(`The RPC cannot be read. Try again, or name another one. It says: ${saidBy(error)}`)
    : error;

/** Says something now and then. */
const throttle = (say: (text: string) => void) => {
  let next = Date.now() + PROGRESS_MS;
  return (text: () => string) => {
    if (Date.now() < next) return;
    next = Date.now() + PROGRESS_MS;
    say(text());
  };
};
