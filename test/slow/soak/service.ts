import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import pg from "pg";
import { type LocalChain, startLocalChain } from "../../../local/chain.ts";
import { compileContracts } from "../../../local/compile-contracts.ts";
import { startEmbeddedPostgres } from "../../../local/embedded-postgres.ts";
import { spawnApi } from "../../../local/spawn-api.ts";
import { isUp } from "../../../process/is-up.ts";
import { findFreePort } from "../../../process/ports.ts";
import { crashPostgres } from "../../support/crash-postgres.ts";
import { launchIndexerProcess } from "../../support/indexer.ts";
import { waitUntil } from "../../support/until.ts";
import { type Counter, createCounter, keepCounting, mineNextCount } from "./counting-chain.ts";
import { startGate } from "./gate.ts";

/** Block timestamps are whole seconds: faster chains would run ahead of the clock. */
const BLOCK_MS = 1_000;
/** Blocks that set up a counting chain. */
const FIRST_BLOCKS = 5;

type Options = {
  /** Data folder of Postgres. */
  directory: string;
  chainIds: readonly number[];
  apis: number;
  /** Lag from which the API refuses a chain. */
  maxLagSeconds: number;
  /** Creates the service's database on the started server. */
  createDatabase?: (serverUrl: string) => Promise<string>;
};

/** An API process, which keeps its port when it is restarted. */
type ApiPart = { port: number; metricsPort: number; pid: number; stop: () => Promise<void> };

/** The complete service over counting chains. Tests can make each part fail. */
export class Service {
  readonly #options: Options;
  readonly #postgresPort: number;
  #postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>;
  #indexer: Awaited<ReturnType<typeof launchIndexerProcess>> | undefined;
  #endings: (() => Promise<void> | void)[] = [];
  readonly chains: LocalChain[] = [];
  /** Relays between the indexer and each chain. */
  readonly gates = new Map<number, Awaited<ReturnType<typeof startGate>>>();
  readonly apis: ApiPart[] = [];
  databaseUrl: string;

  private constructor(options: Options, port: number, postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>) {
    this.#options = options;
    this.#postgresPort = port;
    this.#postgres = postgres;
    this.databaseUrl = postgres.url;
  }

  /** Starts all parts, and resolves when every API answers for every chain. */
  static async start(options: Options): Promise<Service> {
    const port = await findFreePort();
    await mkdir(options.directory, { recursive: true });
    // Postgres does not run as root, and its user needs access.
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
    return this.chains.map(createCounter);
  }

  get ports(): number[] {
    return this.apis.map(({ port }) => port);
  }

  /** Pid of Ponder while it runs. */
  get ponderPid(): number | undefined {
    return this.#indexer?.ponderPid();
  }

  /** Output of the indexer since its last start. */
  get indexerOutput(): string {
    return this.#indexer?.output() ?? "";
  }

  async #startChain(chainId: number, code: Awaited<ReturnType<typeof compileContracts>>): Promise<void> {
    const chain = await startLocalChain(chainId, code);
    this.#endings.push(chain.stop);
    for (let block = 0; block < FIRST_BLOCKS; block++) await mineNextCount(chain);
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

  /** Sends SIGKILL to the indexer and Ponder. */
  async killIndexer(): Promise<void> {
    this.#indexer?.kill();
    await this.#indexer?.exited;
  }

  /** Sends SIGKILL to Ponder; the indexer restarts it. */
  killPonder(): void {
    this.#indexer?.killPonder();
  }

  async startApi(index: number): Promise<void> {
    const api = this.apis[index];
    if (!api) throw new Error(`There is no API ${index}.`);
    const env = {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DATABASE_URL: this.databaseUrl,
      HOST: "127.0.0.1",
      PORT: String(api.port),
      METRICS_PORT: String(api.metricsPort),
      MAX_INDEX_LAG_SECONDS: String(this.#options.maxLagSeconds),
      RATE_LIMIT_REQUESTS: "1000000",
      RATE_LIMIT_WINDOW_SECONDS: "1",
    };
    const child = spawnApi(env, new PassThrough().resume());
    api.pid = child.pid;
    api.stop = child.stop;
  }

  async startPostgres(): Promise<void> {
    this.#postgres = await startPostgres(this.#options.directory, this.#postgresPort);
  }

  /** Stops Postgres cleanly, or crashes it. */
  async stopPostgres(how: "in order" | "at once"): Promise<void> {
    if (how === "in order") return this.#postgres.stop();
    await this.withClient((client) => crashPostgres(client, join(this.#options.directory, "postgres")));
  }

  /** Runs a function with its own connection. */
  async withClient<T>(run: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client({ connectionString: this.databaseUrl, application_name: "fault" });
    client.on("error", () => {});
    await client.connect();
    return run(client).finally(() => client.end());
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
    const hasReached = async (port: number) => {
      const indexed = await readIndexedBlocks(port).catch(() => new Map<number, number>());
      return goals.every(([chainId, goal]) => (indexed.get(chainId) ?? 0) >= goal);
    };
    const readReached = () => Promise.all(this.ports.map(hasReached));
    await waitUntil("the service has recovered", readReached, seconds, (reached) => reached.every(Boolean));
    await this.untilReady(seconds);
  }

  /** Reads the newest indexed block of each chain. */
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
