import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { type LocalChain, startLocalChain } from "../local/chain.ts";
import { compileContracts } from "../local/compile-contracts.ts";
import { isUp } from "../process/is-up.ts";
import { findFreePort } from "../process/ports.ts";
import { type ApiProcess, launchApiProcess } from "../test/support/api.ts";
import { launchIndexerProcess } from "../test/support/indexer.ts";
import { launchRpcProxy } from "../test/support/rpc-proxy.ts";
import { waitUntil } from "../test/support/setup.ts";
import { BreakablePostgres } from "./postgres.ts";

const RESTART_MS = 1_000;

type Indexer = Awaited<ReturnType<typeof launchIndexerProcess>>;

/** An RPC endpoint of a chain. */
export type Rpc = { chainId: number; url: string; socketUrl?: string | undefined; isDown: boolean; stop: () => void };

/** An API process, which keeps its port when it is restarted. */
type ApiPart = { port: number; process: ApiProcess | undefined; upSince: number };

export type StackOptions = {
  chainIds: readonly number[];
  /** Time of the chains' first blocks, by default now. */
  startsAt?: Date;
  /** Starts the RPC endpoints; by default one for each chain. */
  startRpcs?: (chains: readonly LocalChain[]) => Promise<Rpc[]>;
  /** Creates the service's database on the started server. */
  createDatabase?: (postgres: BreakablePostgres) => Promise<string>;
  /** Number of API processes. */
  apis?: number;
  apiEnv?: NodeJS.ProcessEnv;
  indexerEnv?: NodeJS.ProcessEnv;
};

/** The complete service with its Postgres, chains and RPC endpoints. Each part can be broken and mended. */
export class Stack {
  readonly chains: readonly LocalChain[];
  readonly rpcs: readonly Rpc[];
  readonly postgres: BreakablePostgres;
  readonly databaseUrl: string;
  readonly database: pg.Pool;
  readonly apis: ApiPart[] = [];
  readonly #options: StackOptions;
  readonly #indexers: Indexer[] = [];
  /** The indexer to keep running, and the number of re-indexes before it. */
  #indexer: Indexer | undefined;
  #generation = 0;
  #isStopping = false;
  /** How often an indexer ended that was neither killed nor superseded. It is restarted, as a supervisor does. */
  indexerEnds = 0;
  /** APIs that ended without being killed. There must never be one. */
  readonly apiEnds: string[] = [];

  private constructor(
    options: StackOptions,
    { postgres, databaseUrl }: { postgres: BreakablePostgres; databaseUrl: string },
    { chains, rpcs }: { chains: readonly LocalChain[]; rpcs: readonly Rpc[] },
  ) {
    [this.#options, this.postgres, this.databaseUrl] = [options, postgres, databaseUrl];
    [this.chains, this.rpcs] = [chains, rpcs];
    this.database = new pg.Pool({ connectionString: databaseUrl, max: 4 });
    // Every restart of Postgres breaks connections; the pool opens new ones.
    this.database.on("error", () => {});
  }

  /** Starts Postgres, the chains and their RPCs. startService() starts the rest. */
  static async start(options: StackOptions): Promise<Stack> {
    const { chainIds, startsAt = new Date(), startRpcs = startPlainRpcs, createDatabase, apis = 1 } = options;
    const code = await compileContracts();
    const postgres = await BreakablePostgres.start();
    const databaseUrl = createDatabase ? await createDatabase(postgres) : postgres.url;
    const chains = await Promise.all(chainIds.map((chainId) => startLocalChain(chainId, code, { startsAt })));
    const stack = new Stack(options, { postgres, databaseUrl }, { chains, rpcs: await startRpcs(chains) });
    for (let index = 0; index < apis; index++) {
      const port = await findFreePort();
      stack.apis.push({ port, process: undefined, upSince: Number.POSITIVE_INFINITY });
    }
    return stack;
  }

  /** Starts the indexer and the APIs. */
  async startService(): Promise<void> {
    await this.startIndexer();
    for (const index of this.apis.keys()) await this.startApi(index);
  }

  get ports(): number[] {
    return this.apis.map(({ port }) => port);
  }

  /** The newest indexer. */
  get indexer(): Indexer {
    const indexer = this.#indexers.at(-1);
    if (!indexer) throw new Error("No indexer was started.");
    return indexer;
  }

  /** Settings of an indexer of the current index. Each re-index starts at another block, before the first event. */
  get indexerOptions() {
    const urls = (chainId: number) => this.rpcs.flatMap((rpc) => (rpc.chainId === chainId ? rpc.url : []));
    return {
      databaseUrl: this.databaseUrl,
      chains: this.chains.map(({ chainId }) => ({ chainId, url: urls(chainId).join() })),
      env: {
        ...this.#options.indexerEnv,
        ...Object.fromEntries(this.chains.map(({ chainId }) => [`START_BLOCK_${chainId}`, String(this.#generation)])),
        ...Object.fromEntries(this.rpcs.map(({ chainId, socketUrl }) => [`PONDER_WS_URL_${chainId}`, socketUrl])),
      },
    };
  }

  async startIndexer(): Promise<void> {
    const indexer = await launchIndexerProcess(this.indexerOptions);
    this.#indexers.push(indexer);
    this.#indexer = indexer;
    const isCurrent = () => !this.#isStopping && this.#indexer === indexer;
    indexer.exited.then(async () => {
      if (!isCurrent()) return;
      this.indexerEnds++;
      await sleep(RESTART_MS);
      if (isCurrent()) await this.startIndexer();
    });
  }

  async stopIndexer(): Promise<void> {
    const indexer = this.#indexer;
    this.#indexer = undefined;
    await indexer?.stop();
  }

  /** Sends SIGKILL to the indexer and Ponder. */
  async killIndexer(): Promise<void> {
    const indexer = this.#indexer;
    this.#indexer = undefined;
    indexer?.kill();
    await indexer?.exited;
  }

  /** Sends SIGKILL to Ponder, which the indexer restarts. */
  killPonder(): void {
    this.#indexer?.killPonder();
  }

  /** Starts an indexer of another index beside the current one, which ends when it is superseded. */
  async reindex(): Promise<void> {
    this.#generation++;
    await this.startIndexer();
  }

  /** Waits until all superseded indexers have ended. */
  async untilReindexed(): Promise<void> {
    const superseded = this.#indexers.filter((indexer) => indexer !== this.#indexer);
    let isOver = false;
    Promise.all(superseded.map(({ exited }) => exited)).then(() => {
      isOver = true;
    });
    await waitUntil("the superseded indexers have ended", () => isOver, 120);
  }

  async startApi(index: number): Promise<void> {
    const part = this.#findApi(index);
    const env = { ...this.#options.apiEnv, PORT: String(part.port) };
    const api = await launchApiProcess({ databaseUrl: this.databaseUrl, env });
    part.process = api;
    part.upSince = Date.now();
    api.exited.then(({ code }) => {
      if (!this.#isStopping && part.process === api) this.apiEnds.push(`An API ended with code ${code}.`);
    });
  }

  async killApi(index: number): Promise<void> {
    const part = this.#findApi(index);
    const api = part.process;
    part.process = undefined;
    part.upSince = Number.POSITIVE_INFINITY;
    if (api) process.kill(api.pid, "SIGKILL");
    await api?.exited;
  }

  #findApi(index: number): ApiPart {
    const part = this.apis[index];
    if (!part) throw new Error(`There is no API ${index}.`);
    return part;
  }

  /** Runs a function with a connection of its own. */
  withClient<T>(run: (client: pg.Client) => Promise<T>): Promise<T> {
    return this.postgres.withClient(run, this.databaseUrl);
  }

  /** Waits until every API answers for every chain. */
  async untilReady(seconds = 120): Promise<void> {
    const readReady = () => Promise.all(this.ports.map((port) => isUp(`http://127.0.0.1:${port}/ready`)));
    await waitUntil("the service is ready", readReady, seconds, (ready) => ready.every(Boolean));
  }

  /**
   * Waits until every API answers for every chain from a block that did not exist when this was called. An older block
   * proves nothing: a broken part that has not noticed it yet looks healthy.
   */
  async untilRecovered(seconds = 120): Promise<void> {
    const goals = await Promise.all(
      this.chains.map(async ({ chainId, client }) => [chainId, Number(await client.getBlockNumber()) + 2] as const),
    );
    const hasReached = async (_: unknown, index: number) => {
      const indexed = await this.readIndexedBlocks(index).catch(() => new Map<number, number>());
      return goals.every(([chainId, goal]) => (indexed.get(chainId) ?? 0) >= goal);
    };
    const readReached = () => Promise.all(this.apis.map(hasReached));
    await waitUntil("the service has recovered", readReached, seconds, (reached) => reached.every(Boolean));
    await this.untilReady(seconds);
  }

  /** Reads the newest indexed block of each chain from an API. */
  async readIndexedBlocks(index = 0): Promise<Map<number, number>> {
    const status = await (await fetch(`http://127.0.0.1:${this.ports[index]}/status`)).json();
    const { chains } = status as { chains: { chainId: number; indexedBlock: number | null }[] };
    return new Map(chains.map(({ chainId, indexedBlock }) => [chainId, indexedBlock ?? 0]));
  }

  /** Stops everything. With `keepsFolder`, the logs and the database stay in the folder of Postgres. */
  async stop({ keepsFolder = false } = {}): Promise<void> {
    this.#isStopping = true;
    await Promise.all(
      [...this.#indexers, ...this.apis.flatMap(({ process }) => process ?? [])].map(({ stop }) => stop()),
    );
    for (const rpc of this.rpcs) rpc.stop();
    await Promise.all(this.chains.map(({ stop }) => stop()));
    await this.database.end().catch(() => {});
    if (!keepsFolder) return this.postgres.remove();
    await this.postgres.stop().catch(() => {});
    const logs = [
      ...this.apis.map(({ process }, index) => [`api-${index + 1}.log`, process?.output() ?? ""] as const),
      ...this.#indexers.map(({ output }, index) => [`indexer-${index + 1}.log`, output()] as const),
    ];
    for (const [name, text] of logs) await writeFile(join(this.postgres.folder, name), text);
  }
}

const startPlainRpcs = (chains: readonly LocalChain[]): Promise<Rpc[]> =>
  Promise.all(
    chains.map(async ({ chainId, url }) => {
      const proxy = await launchRpcProxy(url);
      const rpc: Rpc = { chainId, url: proxy.url, isDown: false, stop: proxy.stop };
      proxy.intercept = () => (rpc.isDown ? { hangsUp: true } : undefined);
      return rpc;
    }),
  );
