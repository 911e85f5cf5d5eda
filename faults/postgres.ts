import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { startEmbeddedPostgres } from "../local/embedded-postgres.ts";
import { findFreePort } from "../process/ports.ts";
import { listProcesses } from "../test/support/processes.ts";
import { waitUntil } from "../test/support/setup.ts";

/** A Postgres with a folder of its own that can be stopped, crashed, suspended and started again. */
export class BreakablePostgres {
  readonly folder: string;
  readonly url: string;
  #server: Awaited<ReturnType<typeof startEmbeddedPostgres>>;

  private constructor(folder: string, server: Awaited<ReturnType<typeof startEmbeddedPostgres>>) {
    [this.folder, this.#server, this.url] = [folder, server, server.url];
  }

  static async start(): Promise<BreakablePostgres> {
    const folder = await mkdtemp(join(tmpdir(), "delegation-registry-faults-"));
    // Postgres does not run as root, and its user needs access.
    await chmod(folder, 0o755);
    const directory = join(folder, "postgres");
    return new BreakablePostgres(
      folder,
      await startEmbeddedPostgres({ directory, preferredPort: await findFreePort() }),
    );
  }

  /** Starts it again, on the same port. */
  async start(): Promise<void> {
    const preferredPort = Number(new URL(this.url).port);
    this.#server = await startEmbeddedPostgres({ directory: join(this.folder, "postgres"), preferredPort });
    if (this.#server.url !== this.url) throw new Error(`Another process uses port ${preferredPort} of Postgres.`);
  }

  async stop(): Promise<void> {
    await this.#server.stop();
  }

  /** Ends it at once: connections break and nothing is flushed. */
  async crash(): Promise<void> {
    process.kill(await this.#readPid(), "SIGQUIT");
    await waitUntil("Postgres has ended", async () => !(await this.#server.isRunning()), 30);
  }

  /** Suspends all its processes. Returns a function that resumes them. */
  async suspend(): Promise<() => void> {
    const server = await this.#readPid();
    const children = listProcesses().flatMap(({ pid, parent }) => (parent === server ? pid : []));
    const signalAll = (signal: NodeJS.Signals) => {
      for (const pid of [server, ...children]) process.kill(pid, signal);
    };
    signalAll("SIGSTOP");
    return () => signalAll("SIGCONT");
  }

  /** Runs a function with a connection of its own, by default to the first database. */
  async withClient<T>(run: (client: pg.Client) => Promise<T>, databaseUrl = this.url): Promise<T> {
    const client = new pg.Client({ connectionString: databaseUrl, application_name: "fault" });
    client.on("error", () => {});
    await client.connect();
    return run(client).finally(() => client.end().catch(() => {}));
  }

  /** Stops it and removes its folder. */
  async remove(): Promise<void> {
    await this.stop().catch(() => {});
    await rm(this.folder, { recursive: true, force: true });
  }

  async #readPid(): Promise<number> {
    const { rows } = await this.withClient((client) =>
      client.query("select split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int as pid"),
    );
    return rows[0].pid;
  }
}
