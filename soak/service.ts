import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { type LocalChain, startLocalChain } from "../sandbox/chain.ts";
import { compileContracts } from "../sandbox/contracts.ts";
import { startNode } from "../stack/child.ts";
import { startEmbeddedPostgres } from "../stack/embedded-postgres.ts";
import { isUp } from "../stack/is-up.ts";
import { findFreePort } from "../stack/ports.ts";
import { crashPostgres } from "../test/support/crash-postgres.ts";
import { launchIndexerProcess } from "../test/support/indexer-process.ts";
import { type Counter, counterOf, countOn, keepCounting } from "./counting-chain.ts";
import { startGate } from "./gate.ts";

const API = join(import.meta.dirname, "../api/main.ts");
/** A block's time is in whole seconds: chains that count faster would run ahead of the clock. */
const BLOCK_MS = 1_000;
/** What the first blocks of a counting chain set up. */
const FIRST_BLOCKS = 5;

type Options = {
  /** Where Postgres keeps its data. */
  directory: string;
  chainIds: readonly number[];
  apis: number;
  /** When the API says that a chain is not fresh. */
  maxLagSeconds: number;
  /** Makes the database that the service uses, on a server that has just been started. */
  createDatabase?: (serverUrl: string) => Promise<string>;
};

/** An API process at a port of its own, which it keeps when it is started again. */
type ApiPart = { port: number; metricsPort: number; pid: number; stop: () => Promise<void> };

/** The whole service over chains that count, every part of which can be made to fail. */
export class Service {
  readonly #options: Options;
  readonly #postgresPort: number;
  #postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>;
  #indexer: Awaited<ReturnType<typeof launchIndexerProcess>> | undefined;
  #endings: (() => Promise<void> | void)[] = [];
  readonly chains: LocalChain[] = [];
  /** The way of the indexer to each chain. */
  readonly gates = new Map<number, Awaited<ReturnType<typeof startGate>>>();
  readonly apis: ApiPart[] = [];
  databaseUrl: string;

  private constructor(options: Options, port: number, postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>) {
    this.#options = options;
    this.#postgresPort = port;
    this.#postgres = postgres;
    this.databaseUrl = postgres.url;
  }

  /** Starts all of it, and resolves when every chain is answered for by every API. */
  static async start(options: Options): Promise<Service> {
    const port = await findFreePort();
    await mkdir(options.directory, { recursive: true });
    // Postgres does not run as root, and its user has to get in.
    await chmod(options.directory, 0o755);
    const service = new Service(options, port, await startPostgres(options.directory, port));
    try {
      if (options.createDatabase) service.databaseUrl = await options.createDatabase(service.#postgres.url);
      const code = await compileContracts();
      for (const chainId of options.chainIds) await service.#startChain(chainId, code);
      await service.startIndexer();
      for (let index = 0; index < options.apis; index++) {
        service.apis.push({
          port: await findFreePort(),
          metricsPort: await findFreePort(),
          pid: 0,
          stop: async () => {},
        });
        await service.startApi(index);
      }
      await service.untilReady();
      return service;
    } catch (error) {
      await service.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    for (const { stop } of this.apis) await stop();
    await this.#indexer?.stop();
    for (const end of this.#endings.reverse()) await Promise.resolve(end()).catch(() => {});
    await this.#postgres.stop().catch(() => {});
  }

  get counters(): Counter[] {
    return this.chains.map(counterOf);
  }

  get ports(): number[] {
    return this.apis.map(({ port }) => port);
  }

  /** Ponder's process, while it runs. */
  get ponderPid(): number | undefined {
    return this.#indexer?.ponderPid();
  }

  /** All that the indexer has printed since it was started last. */
  get indexerOutput(): string {
    return this.#indexer?.output() ?? "";
  }

  async #startChain(chainId: number, code: Awaited<ReturnType<typeof compileContracts>>): Promise<void> {
    const chain = await startLocalChain(chainId, code);
    this.#endings.push(chain.stop);
    for (let block = 0; block < FIRST_BLOCKS; block++) await countOn(chain);
    this.#endings.push(keepCounting(chain, BLOCK_MS));
    const gate = await startGate(Number(new URL(chain.url).port));
    this.#endings.push(gate.stop);
    this.chains.push(chain);
    this.gates.set(chainId, gate);
  }

  async startIndexer(): Promise<void> {
    const chains = [...this.gates].map(([chainId, { port }]) => ({ chainId, url: `http://127.0.0.1:${port}` }));
    this.#indexer = await launchIndexerProcess({ databaseUrl: this.databaseUrl, chains });
  }

  /** Kills the indexer the hard way, Ponder included. */
  async killIndexer(): Promise<void> {
    this.#indexer?.kill();
    await this.#indexer?.exited;
  }

  /** Kills Ponder the hard way; the indexer starts it again. */
  killPonder(): void {
    this.#indexer?.killPonder();
  }

  async startApi(index: number): Promise<void> {
    const api = this.apis[index];
    if (!api) throw new Error(`There is no API ${index}.`);
    const child = startNode(API, [], {
      output: new PassThrough().resume(),
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        DATABASE_URL: this.databaseUrl,
        HOST: "127.0.0.1",
        PORT: String(api.port),
        METRICS_PORT: String(api.metricsPort),
        MAX_INDEX_LAG_SECONDS: String(this.#options.maxLagSeconds),
        RATE_LIMIT_REQUESTS: "1000000",
        RATE_LIMIT_WINDOW_SECONDS: "1",
      },
    });
    api.pid = child.pid;
    api.stop = child.stop;
  }

  async startPostgres(): Promise<void> {
    this.#postgres = await startPostgres(this.#options.directory, this.#postgresPort);
  }

  /** In order, or as when its machine goes down: connections break, nothing is written down. */
  async stopPostgres(how: "in order" | "at once"): Promise<void> {
    if (how === "in order") return this.#postgres.stop();
    await this.withClient((client) => crashPostgres(client, join(this.#options.directory, "postgres")));
  }

  /** Runs something with a connection of its own. */
  async withClient<T>(run: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client({ connectionString: this.databaseUrl, application_name: "fault" });
    client.on("error", () => {});
    await client.connect();
    return run(client).finally(() => client.end());
  }

  /** Resolves when every API answers for every chain. */
  async untilReady(seconds = 120): Promise<void> {
    const deadline = Date.now() + seconds * 1000;
    const isReady = async () => {
      const ready = await Promise.all(this.ports.map((port) => isUp(`http://127.0.0.1:${port}/ready`)));
      return ready.every(Boolean);
    };
    while (!(await isReady())) {
      if (Date.now() > deadline) throw new Error(`The service was not ready after ${seconds} s.`);
      await sleep(100);
    }
  }

  /**
   * Resolves when the service has recovered: every API answers for every chain, from a block that did not exist yet when
   * this was called. What was indexed before says nothing: a part that is about to notice that it is broken looks well.
   */
  async untilRecovered(seconds = 120): Promise<void> {
    const goals = await Promise.all(
      this.chains.map(async ({ chainId, client }) => [chainId, Number(await client.getBlockNumber()) + 2] as const),
    );
    const deadline = Date.now() + seconds * 1000;
    const hasReached = async (port: number) => {
      const indexed = await readIndexedBlocks(port).catch(() => new Map<number, number>());
      return goals.every(([chainId, goal]) => (indexed.get(chainId) ?? 0) >= goal);
    };
    while (!(await Promise.all(this.ports.map(hasReached))).every(Boolean)) {
      if (Date.now() > deadline) throw new Error(`The service had not recovered after ${seconds} s.`);
      await sleep(100);
    }
    await this.untilReady(seconds);
  }

  /** The newest block that is answered from, of each chain. */
  indexedBlocks(): Promise<Map<number, number>> {
    return readIndexedBlocks(this.ports[0] ?? 0);
  }
}

const readIndexedBlocks = async (port: number): Promise<Map<number, number>> => {
  const status = await (await fetch(`http://127.0.0.1:${port}/status`)).json();
  const { chains } = status as { chains: { chainId: number; indexedBlock: number | null }[] };
  return new Map(chains.map(({ chainId, indexedBlock }) => [chainId, indexedBlock ?? 0]));
};

const startPostgres = (directory: string, port: number) =>
  startEmbeddedPostgres({ directory: join(directory, "postgres"), preferredPort: port });
