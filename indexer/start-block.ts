import { setTimeout as sleep } from "node:timers/promises";
import { BaseError, BlockNotFoundError, type Client, type Hex } from "viem";
import { getBalance, getBlock, getBlockNumber, getCode, getTransactionCount } from "viem/actions";
import type { Deployment } from "../registry/networks.ts";
import { hasCause, isUnreachable, RateLimitError } from "./rpc/rpc-errors.ts";

const ATTEMPTS = 3;
const RETRY_MS = 1_000;

/** Difference that a block's timestamp may have from the real time: Arbitrum accepts a day. */
const CLOCK_SKEW_S = 86_400;

/** Senders of a block to try before its parent's state counts as missing. */
const MAX_SENDERS = 10;

/** A start block and its source. Starting early only costs time; starting late loses delegations. */
type StartBlock =
  | { block: number; source: "setting" | "proven" | "discovered" }
  /** The deployment's own block was not found, for this reason. */
  | { block: number; source: "time" | "floor" | "genesis"; reason: string };

type Found = { block: number } | { reason: string };

/** An endpoint of the chain. */
type Sender = { client: Client; retryMs: number };
type Node = Sender & { deployment: Deployment };

/**
 * Finds the first block that can have an event of a registry: from the setting, from the list of networks, or on the
 * chain. Only the setting can be later than the deployment. Throws if an outage leaves the search without a result.
 * @param clients a client for each endpoint: one without old state must not decide when another has it
 */
export const findStartBlock = async (
  clients: readonly Client[],
  deployment: Deployment,
  setting: number | null,
  retryMs = RETRY_MS,
): Promise<StartBlock> => {
  if (setting !== null) return { block: setting, source: "setting" };
  if (deployment.startBlock !== null) return { block: deployment.startBlock, source: "proven" };

  const nodes = clients.map((client): Node => ({ client, deployment, retryMs }));
  const deployed = await tryEach(nodes, findDeployment);
  if (deployed.block !== undefined) return { block: deployed.block, source: "discovered" };
  const earlier = await tryEach(nodes, findBlockByTime);
  const reason = [...new Set([...deployed.reasons, ...earlier.reasons])].join("; ");
  if (earlier.block !== undefined) return { block: earlier.block, source: "time", reason };

  if (earlier.outage !== undefined) throw earlier.outage;
  const { startBlockFloor } = deployment;
  return startBlockFloor === null
    ? { block: 0, source: "genesis", reason }
    : { block: startBlockFloor, source: "floor", reason };
};

/** Searches with one node after another until one finds a block. */
const tryEach = async (nodes: readonly Node[], find: (node: Node) => Promise<Found>) => {
  const reasons: string[] = [];
  let outage: unknown;
  for (const node of nodes) {
    try {
      const found = await find(node);
      if ("block" in found) return { block: found.block, reasons };
      reasons.push(found.reason);
    } catch (error) {
      outage ??= error;
      reasons.push("an RPC endpoint does not answer");
    }
  }
  return { reasons, outage };
};

/** Finds the block at which the registry's code appears. */
const findDeployment = async (node: Node): Promise<Found> => {
  const { address, deployedBefore } = node.deployment;
  if (deployedBefore === null) return { reason: "the date of the deployment is not known" };

  const head = await fetchHead(node);
  const code = await ask(node, async (client) => (await getCode(client, { address })) ?? "0x");
  if (code === null) return { reason: "an RPC endpoint does not answer eth_getCode" };
  if (code === "0x") return { reason: "the registry is not deployed on this chain" };

  const { lastBefore, firstAfter } = await bisect(node, head, async (blockNumber) => {
    const code = await ask(node, async (client) => (await getCode(client, { address, blockNumber })) ?? "0x");
    if (code === null) return "unknown";
    return code === "0x" ? "before" : "after";
  });
  const noState = { reason: "the RPC is not an archive node: it has no state of old blocks" };
  // Some nodes answer with the newest state when they lack an old one: then the code seems to be older than it is.
  if (lastBefore === null || lastBefore + 1n < firstAfter) return noState;
  // Others return "no code": then the block is too late.
  const timestamp = await fetchTimestamp(node, firstAfter);
  if (
    timestamp === null ||
    timestamp * 1000 > Date.parse(deployedBefore) ||
    !(await hasStateBefore(node, firstAfter))
  ) {
    return noState;
  }
  return { block: Number(firstAfter) };
};

/** Finds the last block before the earliest time of the deployment. Nodes without old state have the headers too. */
const findBlockByTime = async (node: Node): Promise<Found> => {
  const floor = lowestBlock(node);
  const before = Date.parse(node.deployment.deployedAfter) / 1000 - CLOCK_SKEW_S;
  const head = await fetchHead(node);
  const samples: { block: bigint; timestamp: number }[] = [];
  const compareTime = async (block: bigint): Promise<Side> => {
    const timestamp = await fetchTimestamp(node, block);
    if (timestamp === null) return "unknown";
    samples.push({ block, timestamp });
    return timestamp < before ? "before" : "after";
  };

  if ((await compareTime(head)) !== "after") return { reason: "an RPC endpoint has not reached the deployment" };
  const { lastBefore, firstAfter } = await bisect(node, head, compareTime);
  samples.sort((a, b) => Number(a.block - b.block));
  const isOrdered = samples.every(({ timestamp }, i) => timestamp >= (samples[i - 1]?.timestamp ?? 0));
  if (!isOrdered) return { reason: "the timestamps of an RPC endpoint's blocks are not in order" };
  if (lastBefore !== null) return { block: Number(lastBefore) };
  // The chain, or what is left to search of it, is younger than the deployment.
  if (firstAfter === floor) return { block: Number(floor) };
  return { reason: "an RPC endpoint has no old blocks" };
};

type Side = "before" | "after" | "unknown";

/** A block that is not after the deployment, whatever a node says. */
const lowestBlock = ({ deployment }: Node) => BigInt(deployment.startBlockFloor ?? 0);

/**
 * Bisects the blocks from the lowest one up to the head, which is "after". A node that lacks a block lacks the earlier
 * ones too.
 * @returns the last block that is known to be before, and the first one that is known to be after
 */
const bisect = async (node: Node, head: bigint, compare: (block: bigint) => Promise<Side>) => {
  let lastBefore: bigint | null = null;
  let low = lowestBlock(node) - 1n;
  let high = head;
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    const side = await compare(middle);
    if (side === "after") high = middle;
    else low = middle;
    if (side === "before") lastBefore = middle;
  }
  return { lastBefore, firstAfter: high };
};

/**
 * Returns true if a node has the state before a block: a sender of the block has the nonce of its first transaction in
 * it. Some nodes answer for missing state as for empty accounts.
 */
export const hasStateBefore = async (node: Sender, blockNumber: bigint): Promise<boolean> => {
  const block = await ask(node, (client) => getBlock(client, { blockNumber, includeTransactions: true }));
  const firstNonces = new Map<Hex, number>();
  for (const { from, nonce } of block?.transactions ?? []) if (!firstNonces.has(from)) firstNonces.set(from, nonce);
  for (const [address, nonce] of [...firstNonces].slice(0, MAX_SENDERS)) {
    const account = { address, blockNumber: blockNumber - 1n };
    const count = await ask(node, (client) => getTransactionCount(client, account));
    if (count !== nonce) continue;
    if (nonce > 0 || (await ask(node, (client) => getBalance(client, account)))) return true;
  }
  return false;
};

/** Fetches the timestamp of a block; null if the node has none. */
const fetchTimestamp = async (node: Node, blockNumber: bigint): Promise<number | null> => {
  const block = await ask(node, (client) => getBlock(client, { blockNumber }));
  // Some nodes return an empty header for a block that they lack.
  return block?.number === blockNumber ? Number(block.timestamp) || null : null;
};

const fetchHead = async (node: Node): Promise<bigint> => {
  const head = await ask(node, (client) => getBlockNumber(client, { cacheTime: 0 }));
  if (head === null) throw new Error("An RPC endpoint does not answer eth_blockNumber.");
  return head;
};

/**
 * Sends a request, and repeats it while it fails.
 * @returns null if the node lacks the data. Nodes say so with many different errors; an outage or a rate limit is none
 * of them, and throws.
 */
const ask = async <T>({ client, retryMs }: Sender, send: (client: Client) => Promise<T>): Promise<T | null> => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send(client);
    } catch (error) {
      const isOut = isOutage(error);
      if (!isOut && (lacksData(error) || attempt === ATTEMPTS)) return null;
      if (attempt === ATTEMPTS) throw error;
      await sleep(retryMs * 2 ** (attempt - 1));
    }
  }
};

const lacksData = (error: unknown): boolean => {
  if (error instanceof BlockNotFoundError) return true;
  // viem keeps the node's own message in `details`.
  const message = error instanceof BaseError ? error.details : String(error);
  return /missing trie node|unknown state|prun|archiv|histor|(state|block|header|resource).*(unavailable|not (available|found))/i.test(
    message,
  );
};

/** Returns true if a request failed without an answer of the node itself. Some providers refuse old state by a status. */
const isOutage = (error: unknown): boolean =>
  hasCause(error, (cause) => cause instanceof RateLimitError) || (!lacksData(error) && hasCause(error, isUnreachable));
