import { Database } from "../api/database/database.ts";
import type { Statement } from "../api/database/statement.ts";
import { readBuild } from "../api/health/read-build.ts";
import { createLog } from "../api/metrics/log.ts";
import { parseApiSettings } from "../api/settings.ts";
import { startApi } from "../api/start-api.ts";
import { runUntilStopped, untilAborted } from "../process/program.ts";
import { parseDatabaseUrl } from "../process/settings.ts";

// The service without database queries for checks: measures the cost of Hono and our middleware alone.

const NOW = String(Math.floor(Date.now() / 1000));
/** The answer to every check. */
const ANSWER = { value: "true", indexedBlock: "1", indexedBlockTimestamp: NOW, finalizedBlock: "1" };

class MemoryDatabase extends Database {
  override async read<Row>(
    pool: "checks" | "lists" | "background",
    statement: Statement<Row>,
    values: Record<string, unknown>,
  ): Promise<Row[]> {
    if (!/ v[12] .*, (one|many)$/.test(statement.name)) return super.read(pool, statement, values);
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
