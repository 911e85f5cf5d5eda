import { expect, inject, onTestFinished, test } from "vitest";
import { startCountingStack } from "../../faults/counting-chain.ts";
import { reindexed } from "../../faults/faults.ts";
import { runFaults } from "../../faults/run-faults.ts";
import { type Api, createSampleDatabase, FRESH_FOR_A_DAY, OPERATIONS, startTestApi } from "../support/api.ts";
import { signInVisitor } from "../support/developers.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { addKey } from "../support/keys.ts";
import { describeWithPgBouncer, launchPgBouncer } from "../support/pgbouncer.ts";
import { connectClient, waitUntil } from "../support/setup.ts";

/** `default_pool_size` of docs/scaling.md. */
const POOL_SIZE = 8;
/** More than one statement returns. */
const LONG = 3_000;
const LONG_LISTS = [1, 2, 3, 4].map((number) => `/registry/v2/0x${String(number).repeat(40)}?numbers=string`);

describeWithPgBouncer("the API through PgBouncer in transaction mode", () => {
  test("gives the same answers over a few connections, and long lists of several readers are never mixed", async () => {
    const databaseUrl = await createSampleDatabase();
    const database = await connectClient(databaseUrl);
    const direct = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    const { key } = await addKey(database);
    const table = `${await readServedSchema(database)}.delegation_v2`;
    await database.query("set session_replication_role = replica");
    await database.query(
      `insert into ${table} select (jsonb_populate_record(row, jsonb_build_object('vault', '0x' || repeat(v::text, 40), 'token_id', i))).*
       from (select row from ${table} row where chain_id = 1 and type = 'ERC721' limit 1) one,
         generate_series(1, $1) i, generate_series(1, $2) v`,
      [LONG, LONG_LISTS.length],
    );
    const read = async (api: Api, path: string) => {
      // A key of its own for each list: a client reads one or two at a time.
      const headers = { "X-API-KEY": LONG_LISTS.includes(path) ? (await addKey(database, path)).key : key };
      const ask = async () => {
        const response = await api.get(path, { headers });
        return [path, response.status, await response.text()];
      };
      // An overloaded machine refuses some.
      return waitUntil(`${path} is answered`, ask, 60, ([, status]) => status !== 503);
    };
    const paths = [...LONG_LISTS, ...OPERATIONS.v1, ...OPERATIONS.v2];
    const readAll = (api: Api) => Promise.all(paths.map((path) => read(api, path)));
    const expected = await readAll(direct);
    expect(expected.filter(([, status]) => status !== 200)).toEqual([]);

    const pgBouncer = await launchPgBouncer(inject("postgresUrl"));
    onTestFinished(pgBouncer.stop);
    const through = { databaseUrl: pgBouncer.through(databaseUrl), env: FRESH_FOR_A_DAY };
    const apis = [await startTestApi(through), await startTestApi(through)];
    for (let round = 0; round < 3; round++) {
      for (const answers of await Promise.all(apis.map(readAll))) expect(answers).toEqual(expected);
    }
    const { clients, servers } = await pgBouncer.countConnections(databaseUrl);
    expect(clients).toBeGreaterThan(POOL_SIZE);
    expect(servers).toBeLessThanOrEqual(POOL_SIZE);

    const [api = direct] = apis;
    const { key: ownKey } = (await (await signInVisitor(api)).makeKey("mine")).json;
    expect((await api.get(paths.at(-1) ?? "", { headers: { "X-API-KEY": ownKey } })).status).toBe(200);
  });

  test("answers nothing wrong, and refuses nothing during a re-index, which switches views under prepared statements", async () => {
    const apiEnv: NodeJS.ProcessEnv = { MAX_INDEX_LAG_SECONDS: "300" };
    const { stack, stop } = await startCountingStack({
      chainIds: [8453],
      apis: 2,
      apiEnv,
      createDatabase: async ({ url }) => {
        const pgBouncer = await launchPgBouncer(url);
        onTestFinished(pgBouncer.stop);
        apiEnv.DATABASE_URL = pgBouncer.through(url);
        return url;
      },
    });
    onTestFinished(() => stop());
    const outcome = await runFaults(stack, [reindexed], { load: { connections: 4, perSecond: 100 } });
    expect(outcome).toMatchObject({ problems: [], errors: [] });
  });
});
