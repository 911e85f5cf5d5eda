import { connect as connectTo } from "node:net";
import { maxUint256 } from "viem";
import { expect, test } from "vitest";
import { createSampleDatabase, FRESH_FOR_A_DAY, HOT, NFT, startApiProcess, VAULT } from "../support/api.ts";
import { servedSchema } from "../support/index-copy.ts";
import { connect, until } from "../support/setup.ts";

test("SIGTERM: the API accepts no more connections, finishes the requests in flight, and exits with code 0", async () => {
  const databaseUrl = await createSampleDatabase();
  const api = await startApiProcess({ databaseUrl, env: FRESH_FOR_A_DAY });
  const database = await connect(databaseUrl);
  const watcher = await connect(databaseUrl);

  // Questions that have to wait, as during a reorg, each with its own statement.
  await database.query(`begin; lock table ${await servedSchema(database)}.delegation_v2 in access exclusive mode`);
  const checks = ["all", "contract", "erc721", "erc20", "erc1155"];
  const question = `to=${HOT}&from=${VAULT}&contract=${NFT}&tokenId=1`;
  const answers = checks.map((check) => api.get(`/registry/v2/check/${check}?${question}`));
  const readWaiting = async () => {
    const { rows } = await watcher.query(
      "select query from pg_stat_activity where application_name = 'api' and datname = current_database() and wait_event_type = 'Lock'",
    );
    return rows;
  };
  await until("they wait", readWaiting, 60, ({ length }) => length === checks.length);
  // And a connection that never asks anything, as browsers make.
  const silent = connectTo(api.port, "127.0.0.1");
  silent.on("error", () => {});

  process.kill(api.pid, "SIGTERM");
  await until("nothing more is accepted", () =>
    api.get("/health").then(
      () => false,
      () => true,
    ),
  );
  await database.query("rollback");

  const bodies = await Promise.all(answers.map(async (answer) => (await answer).text()));
  expect(bodies).toEqual(["true", "true", "true", String(maxUint256), String(maxUint256)]);
  const answeredAt = Date.now();
  expect(await api.exited).toEqual({ code: 0, signal: null });
  expect(Date.now() - answeredAt).toBeLessThan(5000);
});
