import { connect } from "node:net";
import { maxUint256 } from "viem";
import { expect, test } from "vitest";
import { createSampleDatabase, FRESH_FOR_A_DAY, HOT, NFT, startTestApiProcess, VAULT } from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { connectClient, waitUntil } from "../support/setup.ts";

const CHECKS = ["all", "contract", "erc721", "erc20", "erc1155"];
const QUESTION = `to=${HOT}&from=${VAULT}&contract=${NFT}&tokenId=1`;

/** Sends all v2 checks while their table is locked, as in a reorg: each waits in its own statement. */
const askBehindLock = async (databaseUrl: string) => {
  const api = await startTestApiProcess({ databaseUrl, env: FRESH_FOR_A_DAY });
  const locker = await connectClient(databaseUrl);
  const watcher = await connectClient(databaseUrl);
  await locker.query(`begin; lock table ${await readServedSchema(locker)}.delegation_v2 in access exclusive mode`);
  const answers = CHECKS.map((check) => api.get(`/registry/v2/check/${check}?${QUESTION}`));
  const readWaiting = async () => {
    const { rows } = await watcher.query(
      "select query from pg_stat_activity where application_name = 'api' and datname = current_database() and wait_event_type = 'Lock'",
    );
    return rows;
  };
  await waitUntil("all of them wait", readWaiting, 60, ({ length }) => length === CHECKS.length);
  return { api, answers, readWaiting, unlock: () => locker.query("rollback") };
};

test("the API accepts no connection, finishes requests in flight and exits with code 0 after SIGTERM", async () => {
  const { api, answers, unlock } = await askBehindLock(await createSampleDatabase());
  // A connection without a request, as browsers open.
  const silent = connect(api.port, "127.0.0.1");
  silent.on("error", () => {});

  process.kill(api.pid, "SIGTERM");
  await waitUntil("no connection is accepted", () =>
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

test("requests in flight fail, Postgres cancels their statements and a new API answers after SIGKILL", async () => {
  const databaseUrl = await createSampleDatabase();
  const { api, answers, readWaiting, unlock } = await askBehindLock(databaseUrl);
  const settled = Promise.allSettled(answers);
  process.kill(api.pid, "SIGKILL");
  expect(await api.exited).toEqual({ code: null, signal: "SIGKILL" });
  expect((await settled).map(({ status }) => status)).toEqual(CHECKS.map(() => "rejected"));
  await unlock();
  await waitUntil("no statement is left", readWaiting, 60, ({ length }) => length === 0);

  const next = await startTestApiProcess({ databaseUrl, env: { ...FRESH_FOR_A_DAY, PORT: String(api.port) } });
  expect(await (await next.get(`/registry/v2/check/all?${QUESTION}`)).text()).toBe("true");
});
