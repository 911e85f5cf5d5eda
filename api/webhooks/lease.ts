import { randomUUID } from "node:crypto";
import { sql } from "drizzle-orm";
import type { Database } from "../database/database.ts";
import { compileStatement } from "../database/statement.ts";
import { webhookWorker } from "../database/tables.ts";

/** Time after which another process takes over from one that has died. */
const LEASE_MS = 6_000;

const value = sql.placeholder;

const TAKE = compileStatement<object>(
  "take-webhook-lease",
  sql`insert into ${webhookWorker} (id, expires_at)
    values (${value("id")}, now() + make_interval(secs => ${value("seconds")}::float8))
    on conflict (is_only) do update set id = excluded.id, expires_at = excluded.expires_at
      where webhook_worker.id = excluded.id or webhook_worker.expires_at < now()
    returning id`,
);

const RELEASE = compileStatement<object>(
  "release-webhook-lease",
  sql`delete from ${webhookWorker} where id = ${value("id")}`,
);

/** The right to send, which one process has at a time. A row, as any database role could take an advisory lock. */
export class Lease {
  readonly #database: Database;
  readonly #id = randomUUID();
  #heldUntil = Number.NEGATIVE_INFINITY;

  constructor(database: Database) {
    this.#database = database;
  }

  /** False as soon as another process may have it, also while the database does not answer. */
  get isHeld(): boolean {
    return performance.now() < this.#heldUntil;
  }

  /** Takes or extends it, unless another process has it. */
  async take(): Promise<boolean> {
    const startedAt = performance.now();
    const taken = await this.#database.read("checks", TAKE, { id: this.#id, seconds: LEASE_MS / 1000 });
    this.#heldUntil = taken.length > 0 ? startedAt + LEASE_MS : Number.NEGATIVE_INFINITY;
    return this.isHeld;
  }

  async release(): Promise<void> {
    this.#heldUntil = Number.NEGATIVE_INFINITY;
    await this.#database.read("checks", RELEASE, { id: this.#id });
  }
}
