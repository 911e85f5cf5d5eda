import { setTimeout as sleep } from "node:timers/promises";
import { type Address, numberToHex } from "viem";
import { getBlock, getLogs } from "viem/actions";
import type { ChainPlan } from "../plan.ts";
import { createChainClient } from "../rpc/chain-rpc.ts";
import { Endpoints } from "../rpc/endpoints.ts";
import { includesAddress } from "../rpc/json-rpc.ts";
import { ReceiptLogs } from "../rpc/receipt-logs.ts";
import { redactUrl } from "../rpc/redact.ts";
import { Differences } from "./differences.ts";
import { LimitedRpc } from "./limited-rpc.ts";
import type { IndexedLists } from "./read-lists.ts";
import { type Addresses, type Block, RegistryReader } from "./registry-reader.ts";

type Endpoint = { name: string; url: string; rpc: LimitedRpc };

/** Lines that describe how a wallet's lists differ, by wallet. */
export type Differing = ReadonlyMap<Address, readonly string[]>;

/** The registries of a chain, as each of its endpoints tells their state. */
export class RegistryState {
  readonly #endpoints: readonly Endpoint[];
  readonly #all: Endpoints;
  readonly #addresses: Addresses;

  constructor({ chainId, rpcUrls, v1, v2 }: ChainPlan) {
    this.#endpoints = rpcUrls.map((url) => ({
      name: redactUrl(url),
      url,
      rpc: new LimitedRpc(createChainClient(chainId, [url]), sleep),
    }));
    this.#all = new Endpoints(chainId, rpcUrls);
    this.#addresses = { v1: v1?.address ?? null, v2: v2?.address ?? null };
  }

  /** Requests that were sent. */
  get requests(): number {
    return this.#endpoints.reduce((sum, { rpc }) => sum + rpc.requests, 0);
  }

  /** Finds the wallets whose lists differ. Asks one endpoint after another until one has the state of the block. */
  async findDiffering(indexed: IndexedLists): Promise<Differing> {
    return this.#askInTurn(({ rpc }) => this.#compare(rpc, indexed));
  }

  /**
   * Asks every endpoint.
   * @returns a line for each difference that all endpoints with the state of the block confirm, or none
   */
  async confirm(
    indexed: IndexedLists,
    report: (endpoint: string, lines: readonly string[]) => void,
  ): Promise<readonly string[]> {
    const answers = await Promise.allSettled(this.#endpoints.map(({ rpc }) => this.#compare(rpc, indexed)));
    const found = answers.flatMap((answer, index) =>
      answer.status === "fulfilled"
        ? [{ name: this.#endpoints[index]?.name ?? "", lines: [...answer.value.values()].flat() }]
        : [],
    );
    const [first] = found;
    if (!first) throw (answers[0] as PromiseRejectedResult).reason;
    if (found.every(({ lines }) => lines.length > 0)) return first.lines;
    for (const { name, lines } of found) if (lines.length > 0) report(name, lines);
    return [];
  }

  async fetchBlock(number: number): Promise<Block & { timestamp: bigint }> {
    return this.#askInTurn(({ rpc }) => rpc.request((client) => getBlock(client, { blockNumber: BigInt(number) })));
  }

  /** Finds the endpoints that lack logs of a block which others have, or its receipts. */
  async findLacking(number: number): Promise<string[]> {
    const address = Object.values(this.#addresses).flatMap((one) => one ?? []);
    const block = numberToHex(number);
    const receipts = new ReceiptLogs(this.#all, [{ first: number, last: number }]);
    const inReceipts = await receipts.fetch({ address, fromBlock: block, toBlock: block });
    const range = { address, fromBlock: BigInt(number), toBlock: BigInt(number) };
    const counted = await Promise.all(
      this.#endpoints.map(async ({ url, rpc }) => {
        const logs = await rpc.request((client) => getLogs(client, range)).catch(() => null);
        return { url, logs: logs?.length ?? null };
      }),
    );
    const fromReceipts = inReceipts.filter((log) => includesAddress(address, log.address)).length;
    const most = Math.max(fromReceipts, ...counted.map(({ logs }) => logs ?? 0));
    return counted.flatMap(({ url, logs }) => (logs !== null && logs < most ? [url] : []));
  }

  async #compare(rpc: LimitedRpc, { block, lists }: IndexedLists): Promise<Differing> {
    const registries = await RegistryReader.open(rpc, block, this.#addresses);
    const onChain = await registries.readLists(lists);
    const differing = new Map<Address, string[]>();
    for (const [index, { wallet, delegations }] of lists.entries()) {
      const differences = new Differences();
      differences.addLists(delegations, onChain[index] ?? []);
      if (differences.size > 0) differing.set(wallet, [...(differing.get(wallet) ?? []), ...differences.lines]);
    }
    if (registries.readsByNumber) {
      const { hash } = await rpc.request((client) => getBlock(client, { blockNumber: block.number }));
      if (hash !== block.hash) throw new Error(`Block ${block.number} is not ${block.hash} any more.`);
    }
    return differing;
  }

  async #askInTurn<T>(ask: (endpoint: Endpoint) => Promise<T>): Promise<T> {
    let failure: unknown;
    for (const endpoint of this.#endpoints) {
      try {
        return await ask(endpoint);
      } catch (error) {
        failure ??= error;
      }
    }
    throw failure;
  }
}
