import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { startApiProcess } from "../api/process.ts";
import { parseApiSettings } from "../api/settings.ts";
import { type LocalChain, startLocalChain } from "../sandbox/chain.ts";
import { compileContracts } from "../sandbox/contracts.ts";
import type { Child } from "../stack/child.ts";
import { startEmbeddedPostgres } from "../stack/embedded-postgres.ts";
import { isUp } from "../stack/is-up.ts";
import { findFreePort } from "../stack/ports.ts";
import { crashPostgres } from "../test/support/crash-postgres.ts";
import { launchIndexerProcess } from "../test/support/indexer-process.ts";
import { keepOutput } from "../test/support/output.ts";
import { until } from "../test/support/until.ts";
import { UnrulyRpc } from "./unruly-rpc.ts";

type Indexer = Awaited<ReturnType<typeof launchIndexerProcess>>;

const RESTART_MS = 1_000;
/** Blocks of real networks are not all from this minute either. */
const CHAIN_AGE_MS = 7_200_000;

/** The service with all that it needs, as its operators run it: what ends is started again. */
export class Deployment {
  readonly folder: string;
  readonly chains: readonly LocalChain[];
  readonly rpcs: readonly UnrulyRpc[];
  readonly databaseUrl: string;
  readonly database: pg.Pool;
  readonly api: { url: string; wasDown: (since: number) => boolean };
  #postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>;
  readonly #apiOutput = keepOutput();
  readonly #apiSettings: ReturnType<typeof parseApiSettings>;
  #apiProcess: Child | undefined;
  #apiDownUntil = Number.POSITIVE_INFINITY;
  readonly #indexers: Indexer[] = [];
  /** The one that is to have the index, and how many there were before it. */
  #indexer: { process: Indexer; generation: number } | undefined;
  #isStopping = false;
  readonly differences: string[] = [];
  readonly counts = { kills: 0, postgresRestarts: 0, reindexes: 0, endedByThemselves: 0 };

  private constructor(
    folder: string,
    chains: readonly LocalChain[],
    rpcs: readonly UnrulyRpc[],
    postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>,
    ports: { api: number; metrics: number },
  ) {
    [this.folder, this.chains, this.rpcs, this.#postgres] = [folder, chains, rpcs, postgres];
    this.databaseUrl = postgres.url;
    this.database = new pg.Pool({ connectionString: postgres.url, max: 4 });
    // Lost with every restart of Postgres, and made again.
    this.database.on("error", () => {});
    this.#apiSettings = parseApiSettings({
      HOST: "127.0.0.1",
      PORT: String(ports.api),
      METRICS_PORT: String(ports.metrics),
      RATE_LIMIT_REQUESTS: "1000000",
    });
    this.api = { url: `http://127.0.0.1:${ports.api}`, wasDown: (since) => since <= this.#apiDownUntil };
  }

  /** Postgres and chains; the service itself when it is told to. */
  static async start(seed: number, chainIds: readonly number[]): Promise<Deployment> {
    const folder = await mkdtemp(join(tmpdir(), "delegation-registry-simulate-"));
    // Postgres does not run as root, and its user has to get in.
    await chmod(folder, 0o755);
    const code = await compileContracts();
    const [postgres, ...chains] = await Promise.all([
      startEmbeddedPostgres({ directory: join(folder, "postgres"), preferredPort: await findFreePort() }),
      ...chainIds.map((chainId) => startLocalChain(chainId, code, { startsAt: new Date(Date.now() - CHAIN_AGE_MS) })),
    ]);
    const rpcs = await Promise.all(chains.map((chain) => UnrulyRpc.start(seed, chain)));
    const ports = { api: await findFreePort(), metrics: await findFreePort() };
    return new Deployment(folder, chains, rpcs, postgres, ports);
  }

  async startService(): Promise<void> {
    await this.#startIndexer(0);
    await this.#startApi();
  }

  setCalm(isCalm: boolean) {
    for (const rpc of this.rpcs) rpc.isCalm = isCalm;
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
    if (!child) throw new Error("There is no API to kill.");
    this.counts.kills++;
    this.#apiProcess = undefined;
    this.#apiDownUntil = Number.POSITIVE_INFINITY;
    process.kill(child.pid, "SIGKILL");
    await child.exited;
    await this.#startApi();
  }

  /** Postgres goes down, at once and in the middle of everything or in good order, and is up again. */
  async restartPostgres(isCrash: boolean): Promise<void> {
    this.counts.postgresRestarts++;
    const directory = join(this.folder, "postgres");
    await (isCrash ? crashPostgres(this.database, directory) : this.#postgres.stop());
    const { port } = new URL(this.databaseUrl);
    this.#postgres = await startEmbeddedPostgres({ directory, preferredPort: Number(port) });
    if (this.#postgres.url !== this.databaseUrl) throw new Error(`Port ${port} of Postgres was taken meanwhile.`);
  }

  /** Starts an indexer of another index beside the one that runs, which ends when it is no longer needed. */
  async reindex(): Promise<void> {
    this.counts.reindexes++;
    await this.#startIndexer(this.#running().generation + 1);
  }

  /** Resolves when a re-index that was under way is through. */
  async untilReindexed(): Promise<void> {
    const others = this.#indexers.filter((indexer) => indexer !== this.#indexer?.process);
    const over = Promise.all(others.map(({ exited }) => exited));
    let isOver = false;
    over.then(() => {
      isOver = true;
    });
    await until("the old index is given up", () => isOver, 120);
  }

  /** Ends everything. */
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
  }

  #running() {
    if (!this.#indexer) throw new Error("There is no indexer.");
    return this.#indexer;
  }

  /** Each generation is of another index, by its start blocks, before which nothing has happened. */
  async #startIndexer(generation: number): Promise<void> {
    const process = await launchIndexerProcess({
      databaseUrl: this.databaseUrl,
      chains: this.chains.map(({ chainId }, index) => ({ chainId, url: this.rpcs[index]?.url ?? "" })),
      env: {
        POLLING_INTERVAL_MS: "100",
        ...Object.fromEntries(this.chains.map(({ chainId }) => [`START_BLOCK_${chainId}`, String(generation)])),
      },
    });
    this.#indexers.push(process);
    this.#indexer = { process, generation };
    process.exited.then(async () => {
      // The one that has been superseded is not needed any more; any other is started again, as whatever runs it would.
      if (this.#isStopping || this.#indexer?.process !== process) return;
      this.counts.endedByThemselves++;
      await sleep(RESTART_MS);
      if (!this.#isStopping && this.#indexer?.process === process) await this.#startIndexer(generation);
    });
  }

  async #startApi(): Promise<void> {
    const child = startApiProcess(this.#apiSettings, this.databaseUrl, this.#apiOutput.output);
    this.#apiProcess = child;
    child.exited.then(({ code }) => {
      if (!this.#isStopping && this.#apiProcess === child) this.differences.push(`The API ended with code ${code}.`);
    });
    await until("the API listens", () => isUp(`${this.api.url}/health`), 60);
    this.#apiDownUntil = Date.now();
  }
}
