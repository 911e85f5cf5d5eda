import { setImmediate as endOfTurn } from "node:timers/promises";
import { Database } from "../api/database/database.ts";
import { memoizeByDatabase } from "../api/database/memoize.ts";
import type { Statement } from "../api/database/statement.ts";
import { checkStatement } from "../api/delegations/check-delegation.ts";
import { readBuild } from "../api/health/read-build.ts";
import { createLog } from "../api/metrics/log.ts";
import { parseApiSettings } from "../api/settings.ts";
import { startApi } from "../api/start-api.ts";
import { runUntilStopped, untilAborted } from "../process/program.ts";
import { parseDatabaseUrl } from "../process/settings.ts";
import { CHECKS } from "../registry/checks.ts";

// The service without database queries for checks: measures the cost of Hono and our middleware alone.

const NOW = String(Math.floor(Date.now() / 1000));
/** The answer to every check. */
const ANSWER = { value: "true", indexedBlock: "1", indexedBlockTimestamp: NOW, finalizedBlock: "1" };

/** The SQL of every check, as the service writes it: a name may change. test/slow/baselines.test.ts tests it. */
const checksOf = memoizeByDatabase((database, schema: string) => {
  const statements = CHECKS.flatMap((check) =>
    (["now", "past"] as const).flatMap((moment) =>
      (["one", "many"] as const).map((size) => checkStatement(database, { schema, check, moment }, size)),
    ),
  );
  return new Set(statements.map(({ text }) => text));
});

class MemoryDatabase extends Database {
  override async read<Row>(
    pool: Parameters<Database["read"]>[0],
    statement: Statement<Row>,
    values: Record<string, unknown>,
  ): Promise<Row[]> {
    // A statement's name begins with its schema.
    const [schema = ""] = statement.name.split(" ");
    if (pool !== "checks" || !checksOf(this, schema).has(statement.text)) return super.read(pool, statement, values);
    // As beside Postgres, questions that arrive meanwhile share the next batch.
    await endOfTurn();
    const questions = Array.isArray(values.chainId) ? values.chainId : [values.chainId];
    return questions.map((_, index) => ({ position: String(index + 1), ...ANSWER })) as Row[];
  }
}

await runUntilStopped(async (signal) => {
  const settings = parseApiSettings(process.env);
  const api = await startApi({
    databaseUrl: parseDatabaseUrl(process.env),
    settings,
    build: readBuild(process.env),
    log: createLog(settings.logLevel),
    createDatabase: (...parameters) => new MemoryDatabase(...parameters),
  });
  await untilAborted(signal);
  await api.stop();
});
