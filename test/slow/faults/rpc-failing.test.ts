import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { compileContracts } from "../../../local/compile-contracts.ts";
import { sendSamples } from "../../../local/samples.ts";
import { startTestApi } from "../../support/api.ts";
import { createRandomChain } from "../../support/indexed-chain.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import {
  connectClient,
  createChain,
  createDatabase,
  startIndexer,
  waitUntil,
  waitUntilIndexed,
} from "../../support/setup.ts";

const FAULT_MS = 2_500;
/** The API refuses a chain whose index is older. */
const MAX_LAG_SECONDS = 2;
/** Maximum wait for the first refusal: the chain's clock may be some seconds ahead. */
const LONGEST_FAULT_MS = 30_000;

const hang = () => sleep(60_000, undefined, { ref: false }).then(() => undefined);

const FAULTS = [
  ["429 to all", () => ({ status: 429 })],
  ["429 to two of three", (count: number) => (count % 3 === 0 ? undefined : { status: 429 })],
  ["a rate-limit error", () => ({ error: { code: -32005, message: "daily limit exceeded" } })],
  ["500 to all", () => ({ status: 500 })],
  ["truncated JSON", () => ({ status: 200, body: '{"jsonrpc":"2.0","id":1,"result":{"number":"0x' })],
  ["an empty response", () => ({ status: 200, body: "" })],
  ["no response", hang],
] as const;

test("the API returns 503 for a chain whose RPC fails, answers for another chain, and gives no wrong answer", async () => {
  const subject = await createRandomChain(8453, 43, 3);
  const bystander = await createChain(10);
  await sendSamples(bystander, await compileContracts());
  const proxy = await startRpcProxy(subject.local.url);

  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const chains = [{ chainId: 8453, url: proxy.url }, bystander];
  const indexer = await startIndexer({ databaseUrl, chains });
  await waitUntilIndexed(database, subject.local);
  await waitUntilIndexed(database, bystander);
  const api = await startTestApi({ databaseUrl, env: { MAX_INDEX_LAG_SECONDS: String(MAX_LAG_SECONDS) } });
  const ask = async (chainId: number) => {
    const response = await api.get(`/registry/v2/${subject.world.payer}?chainId=${chainId}`);
    return { status: response.status, body: await response.text() };
  };

  for (const [name, fault] of FAULTS) {
    let count = 0;
    proxy.intercept = () => fault(++count);
    await subject.mineRandomBlocks(2);
    const startedAt = Date.now();
    const isTotal = !name.includes("two of three");
    let refused = 0;
    while (Date.now() - startedAt < FAULT_MS || (isTotal && refused === 0)) {
      expect(Date.now() - startedAt, `${name}: never refused`).toBeLessThan(LONGEST_FAULT_MS);
      await bystander.client.mine({ blocks: 1 });
      await waitUntilIndexed(database, bystander, { seconds: 20 });
      expect(await ask(10), name).toMatchObject({ status: 200 });
      const { status, body } = await ask(8453);
      if (status === 503) {
        expect(JSON.parse(body), name).toMatchObject({ type: "/docs#problem-stale-index" });
        refused++;
      } else expect(status, name).toBe(200);
    }

    proxy.intercept = () => undefined;
    await waitUntilIndexed(database, subject.local, { seconds: 60 });
    await subject.expectSameAnswers(databaseUrl, "registry");
    await subject.mineEmptyBlocks(1);
    await waitUntil(`${name}: the API answers again`, async () => (await ask(8453)).status === 200, 20);
  }
  expect(indexer.output()).not.toContain("starting it again");
});
