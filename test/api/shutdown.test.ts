import { connect as connectTo } from "node:net";
import { maxUint256 } from "viem";
import { expect, test } from "vitest";
import { createSampleDatabase, FRESH_FOR_A_DAY, HOT, NFT, startApiProcess, VAULT } from "../support/api.ts";
import { servedSchema } from "../support/index-copy.ts";
import { connect, until } from "../support/setup.ts";

const CHECKS = ["all", "contract", "erc721", "erc20", "erc1155"];
const QUESTION = `to=${HOT}&from=${VAULT}&contract=${NFT}&tokenId=1`;

/** Asks all v2 checks while their table is locked, as during a reorg: each waits in a statement of its own. */
const askBehindLock = async (databaseUrl: string) => {
  const api = await startApiProcess({ databaseUrl, env: FRESH_FOR_A_DAY });
  const locker = await connect(databaseUrl);
  const watcher = await connect(databaseUrl);
  await locker.query(`begin; lock table ${await servedSchema(locker)}.delegation_v2 in access exclusive mode`);
  const answers = CHECKS.map((check) => api.get(`/registry/v2/check/${check}?${QUESTION}`));
  const readWaiting = async () => {
    const { rows } = await watcher.query(
      "select query from pg_stat_activity where application_name = 'api' and datname = current_database() and wait_event_type = 'Lock'",
    );
    return rows;
  };
  await until("all of them wait", readWaiting, 60, ({ length }) => length === CHECKS.length);
  return { api, answers, readWaiting, unlock: () => locker.query("rollback") };
};

test("SIGTERM: the API accepts no more connections, finishes the requests in flight, and exits with code 0", async () => {
  const { api, answers, unlock } = await askBehindLock(await createSampleDatabase());
  // A connection that never asks anything, as browsers make.
  const silent = connectTo(api.port, "127.0.0.1");
  silent.on("error", () => {});

  process.kill(api.pid, "SIGTERM");
  await until("nothing more is accepted", () =>
    api.get("/health").then(
      () => false,
      () => true,
    ),
  );
  await unlock();

  const bodies = await Promise.all(answers.map(async (answer) => (await answer).text()));
  expect(bodies).toEqual(["true", "true", "true", String(maxUint256), String(maxUint256)]);
  const answeredAt = Date.now();
  expect(await api.exited).toEqual({ code: 0, signal: null });
  expect(Date.now() - answeredAt).toBeLessThan(5000);
});

test("SIGKILL: requests in flight fail, Postgres drops their statements, and an API at the same port answers", async () => {
  const databaseUrl = await createSampleDatabase();
  const { api, answers, readWaiting, unlock } = await askBehindLock(databaseUrl);
  const settled = Promise.allSettled(answers);
  process.kill(api.pid, "SIGKILL");
  expect(await api.exited).toEqual({ code: null, signal: "SIGKILL" });
  expect((await settled).map(({ status }) => status)).toEqual(CHECKS.map(() => "rejected"));
  await unlock();
  await until("no statement is left", readWaiting, 60, ({ length }) => length === 0);

  const next = await startApiProcess({ databaseUrl, env: { ...FRESH_FOR_A_DAY, PORT: String(api.port) } });
  expect(await (await next.get(`/registry/v2/check/all?${QUESTION}`)).text()).toBe("true");
});
