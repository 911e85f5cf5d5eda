import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { type LocalChain, startLocalChain } from "../../../local/chain.ts";
import { compileContracts } from "../../../local/compile-contracts.ts";
import { startEmbeddedPostgres } from "../../../local/embedded-postgres.ts";
import { spawnApi } from "../../../local/spawn-api.ts";
import type { Child } from "../../../process/child.ts";
import { isUp } from "../../../process/is-up.ts";
import { findFreePort } from "../../../process/ports.ts";
import { crashPostgres } from "../../support/crash-postgres.ts";
import { launchIndexerProcess } from "../../support/indexer.ts";
import { captureOutput } from "../../support/run.ts";
import { waitUntil } from "../../support/until.ts";
import { createRandom } from "./create-random.ts";
import { UnreliableRpc } from "./unreliable-rpc.ts";

type Indexer = Awaited<ReturnType<typeof launchIndexerProcess>>;

const RESTART_MS = 1_000;
/** Age of the first block, as blocks of real networks are not all recent. */
const CHAIN_AGE_MS = 7_200_000;
/** First block whose logs an endpoint has that lacks history. The first operations are in earlier blocks. */
const LOGS_SINCE = 500;

/** The service with its database, chains and RPCs. An indexer that ends is restarted, as an operator's supervisor does. */
export class SimulatedDeployment {
  readonly folder: string;
  readonly chains: readonly LocalChain[];
  readonly rpcs: readonly UnreliableRpc[];
  readonly databaseUrl: string;
  readonly database: pg.Pool;
  readonly api: { url: string; wasDown: (since: number) => boolean };
  #postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>;
  readonly #apiOutput = captureOutput();
  readonly #apiEnv: NodeJS.ProcessEnv;
  #apiProcess: Child | undefined;
  #apiDownUntil = Number.POSITIVE_INFINITY;
  readonly #indexers: Indexer[] = [];
  /** The current indexer, and the number of re-indexes before it. */
  #indexer: { process: Indexer; generation: number } | undefined;
  #isStopping = false;
  readonly differences: string[] = [];
  readonly counts = { kills: 0, postgresRestarts: 0, reindexes: 0, endedByThemselves: 0 };

  private constructor(
    folder: string,
    { chains, rpcs }: { chains: readonly LocalChain[]; rpcs: readonly UnreliableRpc[] },
    postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>,
    ports: { api: number; metrics: number },
  ) {
    [this.folder, this.chains, this.rpcs, this.#postgres] = [folder, chains, rpcs, postgres];
    this.databaseUrl = postgres.url;
    this.database = new pg.Pool({ connectionString: postgres.url, max: 4 });
    // Every restart of Postgres breaks connections; the pool opens new ones.
    this.database.on("error", () => {});
    this.#apiEnv = {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DATABASE_URL: postgres.url,
      HOST: "127.0.0.1",
      PORT: String(ports.api),
      METRICS_PORT: String(ports.metrics),
      RATE_LIMIT_REQUESTS: "1000000",
    };
    this.api = { url: `http://127.0.0.1:${ports.api}`, wasDown: (since) => since <= this.#apiDownUntil };
  }

  /** Starts Postgres, chains and RPCs. startService() starts the rest. */
  static async start(seed: number, chainIds: readonly number[]): Promise<SimulatedDeployment> {
    const folder = await mkdtemp(join(tmpdir(), "delegation-registry-simulate-"));
    // Postgres does not run as root, and its user needs access.
    await chmod(folder, 0o755);
    const code = await compileContracts();
    const [postgres, ...chains] = await Promise.all([
      startEmbeddedPostgres({ directory: join(folder, "postgres"), preferredPort: await findFreePort() }),
      ...chainIds.map((chainId) => startLocalChain(chainId, code, { startsAt: new Date(Date.now() - CHAIN_AGE_MS) })),
    ]);
    const rpcs = await startRpcs(seed, chains);
    const ports = { api: await findFreePort(), metrics: await findFreePort() };
    return new SimulatedDeployment(folder, { chains, rpcs }, postgres, ports);
  }

  async startService(): Promise<void> {
    await this.#startIndexer(0);
    await this.#startApi();
  }

  setCalm(isCalm: boolean) {
    for (const rpc of this.rpcs) rpc.setCalm(isCalm);
  }

  async killIndexer(): Promise<void> {
    const { process, generation } = this.#running();
    this.counts.kills++;
    this.#indexer = undefined;
    process.kill();
    await process.exited;
    await this.#startIndexer(generation);
  }

  killPonder() {
    this.counts.kills++;
    this.#running().process.killPonder();
  }

  async killApi(): Promise<void> {
    const child = this.#apiProcess;
    if (!child) throw new Error("Cannot kill the API: it is not running.");
    this.counts.kills++;
    this.#apiProcess = undefined;
    this.#apiDownUntil = Number.POSITIVE_INFINITY;
    process.kill(child.pid, "SIGKILL");
    await child.exited;
    await this.#startApi();
  }

  /** Restarts Postgres, after a crash or a clean shutdown. */
  async restartPostgres(isCrash: boolean): Promise<void> {
    this.counts.postgresRestarts++;
    const directory = join(this.folder, "postgres");
    await (isCrash ? crashPostgres(this.database, directory) : this.#postgres.stop());
    const { port } = new URL(this.databaseUrl);
    this.#postgres = await startEmbeddedPostgres({ directory, preferredPort: Number(port) });
    if (this.#postgres.url !== this.databaseUrl)
      throw new Error(`Postgres could not restart at port ${port}: another process uses it.`);
  }

  /** Starts an indexer of another index beside the current one, which ends when it is superseded. */
  async reindex(): Promise<void> {
    this.counts.reindexes++;
    await this.#startIndexer(this.#running().generation + 1);
  }

  /** Waits until a re-index in flight is complete. */
  async untilReindexed(): Promise<void> {
    const others = this.#indexers.filter((indexer) => indexer !== this.#indexer?.process);
    const over = Promise.all(others.map(({ exited }) => exited));
    let isOver = false;
    over.then(() => {
      isOver = true;
    });
    await waitUntil("the superseded indexers have ended", () => isOver, 120);
  }

  /** Stops everything. */
  async stop({ keepsFolder }: { keepsFolder: boolean }): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#indexers.map(({ stop }) => stop()), this.#apiProcess?.stop()]);
    for (const rpc of this.rpcs) rpc.stop();
    await Promise.all(this.chains.map(({ stop }) => stop()));
    await this.database.end().catch(() => {});
    await this.#postgres.stop().catch(() => {});
    if (!keepsFolder) {
      await rm(this.folder, { recursive: true, force: true });
      return;
    }
    await writeFile(join(this.folder, "api.log"), this.#apiOutput.printed());
    for (const [index, { output }] of this.#indexers.entries()) {
      await writeFile(join(this.folder, `indexer-${index + 1}.log`), output());
    }
    for (const [index, { chainId, phases }] of this.rpcs.entries()) {
      await writeFile(join(this.folder, `rpc-${index + 1}-chain-${chainId}.log`), phases.join("\n"));
    }
  }

  #running() {
    if (!this.#indexer) throw new Error("No indexer is running.");
    return this.#indexer;
  }

  /** Each generation builds another index: its start blocks differ, and there are no events before them. */
  async #startIndexer(generation: number): Promise<void> {
    const process = await launchIndexerProcess({
      databaseUrl: this.databaseUrl,
      chains: this.chains.map(({ chainId }) => ({
        chainId,
        url: this.rpcs.flatMap((rpc) => (rpc.chainId === chainId ? [rpc.url] : [])).join(),
      })),
      env: {
        // Ponder sends as few as 3 requests a second after rate limits. Faster polls would leave none for blocks and logs.
        POLLING_INTERVAL_MS: "400",
        ...Object.fromEntries(this.chains.map(({ chainId }) => [`START_BLOCK_${chainId}`, String(generation)])),
        ...Object.fromEntries(this.rpcs.map(({ chainId, socketUrl }) => [`PONDER_WS_URL_${chainId}`, socketUrl])),
      },
    });
    this.#indexers.push(process);
    this.#indexer = { process, generation };
    process.exited.then(async () => {
      // A superseded indexer is not restarted; any other is.
      if (this.#isStopping || this.#indexer?.process !== process) return;
      this.counts.endedByThemselves++;
      await sleep(RESTART_MS);
      if (!this.#isStopping && this.#indexer?.process === process) await this.#startIndexer(generation);
    });
  }

  async #startApi(): Promise<void> {
    const child = spawnApi(this.#apiEnv, this.#apiOutput.output);
    this.#apiProcess = child;
    child.exited.then(({ code }) => {
      if (!this.#isStopping && this.#apiProcess === child) this.differences.push(`The API ended with code ${code}.`);
    });
    await waitUntil("the API listens", () => isUp(`${this.api.url}/health`), 60);
    this.#apiDownUntil = Date.now();
  }
}

/** Starts an endpoint for each chain. One chain has a WebSocket, another one may have an endpoint without history. */
const startRpcs = async (seed: number, chains: readonly LocalChain[]): Promise<UnreliableRpc[]> => {
  const random = createRandom(seed, "endpoints");
  const withSocket = random.integer(0, chains.length - 1);
  const hasRecentOnly = random.chance(0.5);
  const liesByAddress = random.chance(0.5);
  const started = chains.flatMap((chain, index) => {
    const hasSocket = index === withSocket;
    // The indexer requests logs by address and in another way, or from two endpoints. It cannot notice a log that both
    // answers lack.
    if (hasSocket || !hasRecentOnly) return [UnreliableRpc.start(seed, chain, { hasSocket, liesByAddress })];
    // An operator may name the endpoint without history first.
    return [LOGS_SINCE, 0].map((logsSince) => UnreliableRpc.start(seed, chain, { logsSince, liesByAddress: false }));
  });
  return Promise.all(started);
};
