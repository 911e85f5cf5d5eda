import type pg from "pg";
import { type Address, BaseError, BlockNotFoundError, type Hash } from "viem";
import { getBlock } from "viem/actions";
import type { Delegation, Side } from "../../indexer/verification/delegation.ts";
import { Differences } from "../../indexer/verification/differences.ts";
import { describeRpcError, isTooLarge, type LimitedRpc } from "../../indexer/verification/limited-rpc.ts";
import { type Block, RegistryReader } from "../../indexer/verification/registry-reader.ts";
import type { Network, RegistryVersion } from "../../registry/networks.ts";
import { CannotAuditError, OtherForkError } from "./cannot-audit.ts";
import { EventReader } from "./read-events.ts";
import {
  type IndexedChain,
  readIndexedChain,
  readIndexedStartBlock,
  readSnapshot,
  type Snapshot,
} from "./read-index.ts";
import { drawRandom, drawWallets, groupByWallet } from "./wallets.ts";

const REGISTRIES: readonly RegistryVersion[] = ["v1", "v2"];
const SIDES: readonly Side[] = ["outgoing", "incoming"];

/** Maximum delegations to check, from the log and from events each. */
const MAX_CHECKED = 500;

/** An indexer takes a few seconds to revert a reorg. */
const ATTEMPTS = 5;
const ATTEMPT_MS = 2_000;

const PROGRESS_MS = 5_000;

type Options = {
  network: Network;
  database: pg.Client;
  rpc: LimitedRpc;
  /** Number of wallets to compare; null: all. */
  sample: number | null;
  /** null: the newest indexed block. */
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
  /** Lists that the node could not return and that no other list covers. */
  unread: readonly string[];
};

/** Compares the index with the registries' own answers at one block. */
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
      `The RPC does not have block ${block.number}, which is indexed: it lags behind. Try again, or name another RPC.`,
    );
  }
  return { block, wallets: 0, delegations: 0, checks: 0, differences: [message], unread: [] };
};

type Events = { reader: EventReader; last: bigint };

/** Reads the registries' events, of all blocks or of random ones: they name wallets that the index may lack. */
const readEvents = async ({ network, database, rpc, sample, block, say }: Options): Promise<Events> => {
  const chain = await readIndexedChain(database, network.chainId, block);
  const last = block ?? chain.block;
  const first = await findFirstBlock(database, network, chain, last);
  const reader = new EventReader(
    rpc,
    REGISTRIES.flatMap((registry) => chain.addresses[registry] ?? []),
  );
  const report = throttle(say);
  try {
    if (sample !== null) await reader.readRandom(first, last, sample / 2);
    else await reader.readAll(first, last, (read) => report(() => `Events up to block ${read} of ${last} are read.`));
  } catch (error) {
    throw explainRpcError(error);
  }
  return { reader, last };
};

/** Finds a block at or before the registries' first event. */
const findFirstBlock = async (database: pg.Client, network: Network, chain: IndexedChain, last: bigint) => {
  const blocks: number[] = [];
  for (const registry of REGISTRIES) {
    const deployment = network[registry];
    if (!deployment || chain.addresses[registry] === null) continue;
    const known = deployment.startBlock ?? deployment.startBlockFloor;
    blocks.push(known ?? (await readIndexedStartBlock(database, network.chainId, registry)));
  }
  const first = BigInt(Math.min(...blocks));
  // A local chain with a network's id has the registries from the first block.
  return first <= last ? first : 0n;
};

const compareAtOneBlock = async (options: Options, { reader: events, last }: Events): Promise<Report> => {
  const { database, rpc, network, sample, say } = options;
  const sampleSize = Math.min(sample ?? MAX_CHECKED, MAX_CHECKED);
  const snapshot = await readSnapshot(database, {
    chainId: network.chainId,
    block: options.block,
    sampleSize,
    extraDelegations: drawRandom(sampleSize, events.delegations),
  });
  const { delegations, checks } = snapshot;
  const newest = { number: snapshot.block, hash: snapshot.hash };
  await requireSameFork(rpc, newest);
  const block = options.block === null ? newest : await fetchBlock(rpc, options.block);
  say(`At block ${block.number} (${block.hash}) the index has ${delegations.length} delegations.`);

  const registries = await RegistryReader.open(rpc, block, snapshot.addresses);
  // The index may have advanced since the events were read.
  if (sample === null) await events.readAll(last + 1n, block.number, () => {});
  const wallets = drawWallets(delegations, events.wallets, sample);
  const comparison = new SnapshotComparison(options, snapshot, block, registries);
  await comparison.compareLists(wallets);
  await comparison.compareChecks();
  if (registries.readsByNumber) await requireSameFork(rpc, block);

  const { differences, compared, unread } = comparison;
  return {
    block,
    wallets: wallets.size,
    delegations: compared.size,
    checks: checks.length,
    differences: differences.lines,
    unread,
  };
};

/** Compares a snapshot of the index with the registries at a block. */
class SnapshotComparison {
  readonly #options: Options;
  readonly #snapshot: Snapshot;
  readonly #block: Block;
  readonly #registries: RegistryReader;
  readonly differences = new Differences();
  readonly compared = new Set<Delegation>();
  readonly unread: string[] = [];

  constructor(options: Options, snapshot: Snapshot, block: Block, registries: RegistryReader) {
    this.#options = options;
    this.#snapshot = snapshot;
    this.#block = block;
    this.#registries = registries;
  }

  async compareLists(wallets: ReadonlySet<Address>): Promise<void> {
    const { rpc, say } = this.#options;
    const findList = groupByWallet(this.#snapshot.delegations, wallets);
    const report = throttle(say);
    let done = 0;
    await rpc.forEach(wallets, async (wallet) => {
      for (const registry of REGISTRIES) {
        for (const side of SIDES) await this.#compareList(registry, side, wallet, findList(registry, side, wallet));
      }
      done++;
      report(() => `${done} of ${wallets.size} wallets are compared: ${this.differences.size} differences.`);
    });
  }

  async #compareList(registry: RegistryVersion, side: Side, wallet: Address, indexed: readonly Delegation[]) {
    try {
      this.differences.addLists(indexed, await this.#registries.readList(registry, side, wallet));
      for (const delegation of indexed) this.compared.add(delegation);
    } catch (error) {
      await this.#requireReadable(error);
      // Anybody can make an incoming list too long for a node. With all wallets, outgoing lists cover it too.
      if (this.#options.sample === null && side === "incoming") return;
      this.unread.push(`The ${side} ${registry} delegations of ${wallet} cannot be read: ${describeRpcError(error)}`);
    }
  }

  async compareChecks(): Promise<void> {
    await this.#options.rpc.forEach(this.#snapshot.checks, async ({ question, answer }) => {
      try {
        this.differences.addCheck(question, answer, await this.#registries.check(question));
      } catch (error) {
        await this.#requireReadable(error);
        throw explainRpcError(error);
      }
    });
  }

  /** Throws the reason of a failed request, unless the request was too large: node, block and state are still there. */
  async #requireReadable(error: unknown): Promise<void> {
    const { rpc } = this.#options;
    if (!isTooLarge(error)) throw explainRpcError(error);
    await requireSameFork(rpc, this.#block);
    await RegistryReader.open(rpc, this.#block, this.#snapshot.addresses);
  }
}

/** Throws an OtherForkError if the chain does not have this block. */
const requireSameFork = async (rpc: LimitedRpc, block: Block): Promise<void> => {
  const actual = await fetchHash(rpc, block.number);
  if (actual !== block.hash) throw new OtherForkError(block, actual);
};

const fetchBlock = async (rpc: LimitedRpc, number: bigint): Promise<Block> => {
  const hash = await fetchHash(rpc, number);
  if (hash === null) throw new CannotAuditError(`The RPC does not have block ${number}. Name another RPC.`);
  return { number, hash };
};

const fetchHash = async (rpc: LimitedRpc, blockNumber: bigint): Promise<Hash | null> => {
  try {
    const { hash } = await rpc.request((client) => getBlock(client, { blockNumber }));
    return hash;
  } catch (error) {
    if (error instanceof BlockNotFoundError) return null;
    throw explainRpcError(error);
  }
};

const explainRpcError = (error: unknown): unknown =>
  error instanceof BaseError
    ? new CannotAuditError(
        `The RPC cannot be read. Try again, or name another RPC. The RPC says: ${describeRpcError(error)}`,
      )
    : error;

/** Limits messages to one per interval. */
const throttle = (say: (text: string) => void) => {
  let next = Date.now() + PROGRESS_MS;
  return (text: () => string) => {
    if (Date.now() < next) return;
    next = Date.now() + PROGRESS_MS;
    say(text());
  };
};
