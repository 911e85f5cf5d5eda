import { expect, test } from "vitest";
import { findFreePort } from "../../stack/ports.ts";
import { startIndexerProcess } from "../support/indexer-process.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { connect, createChain, createDatabase, until, untilIndexed } from "../support/setup.ts";

test("an indexer without usable settings names all problems, shows no stack, and ends with code 1", async () => {
  const indexer = await startIndexerProcess({
    databaseUrl: await createDatabase(),
    chains: [],
    env: { PONDER_RPC_URL_424242: "https://rpc.example", CHAINS: "1", LOG_LEVEL: "loud" },
  });
  expect(await indexer.exited).toEqual({ code: 1, signal: null });
  expect(indexer.output()).toContain('PONDER_RPC_URL_424242: there is no registry on a chain "424242"');
  expect(indexer.output()).toContain("CHAINS names chain 1, which has no RPC");
  expect(indexer.output()).toContain("LOG_LEVEL must be");
  expect(indexer.output()).not.toMatch(/^\s+at /m);
});

test("an indexer whose RPC is on another chain is refused before anything is stored", async () => {
  const [right, wrong] = [await createChain(8453), await createChain(10)];
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const indexer = await startIndexerProcess({
    databaseUrl,
    chains: [{ chainId: 8453, url: `${right.url},${wrong.url}` }],
  });
  expect(await indexer.exited).toEqual({ code: 1, signal: null });
  expect(indexer.output()).toContain("is on chain 10, not on chain 8453");
  const { rows } = await database.query(
    "select nspname from pg_namespace where nspname !~ '^(pg_|information_schema$|public$)'",
  );
  expect(rows).toEqual([]);
});

test("an indexer whose port is taken says so", async () => {
  const chain = await createChain(8453);
  const proxy = await startRpcProxy(chain.url);
  const indexer = await startIndexerProcess({
    databaseUrl: await createDatabase(),
    chains: [chain],
    env: { INDEXER_PORT: new URL(proxy.url).port },
  });
  expect(await indexer.exited).toEqual({ code: 1, signal: null });
  expect(indexer.output()).toContain("set another INDEXER_PORT");
});

test("an indexer whose database is unreachable says so, without the password", async () => {
  const chain = await createChain(8453);
  const port = await findFreePort();
  const indexer = await startIndexerProcess({
    databaseUrl: `postgres://user:s3cret@127.0.0.1:${port}/app`,
    chains: [chain],
  });
  expect(await indexer.exited).toEqual({ code: 1, signal: null });
  expect(indexer.output()).toContain("ECONNREFUSED");
  expect(indexer.output()).not.toContain("s3cret");
});

test("an indexer whose RPC is not up yet waits for it, and uses one that is", async () => {
  const chain = await createChain(8453);
  await chain.client.mine({ blocks: 1 });
  const proxy = await startRpcProxy(chain.url);
  proxy.intercept = () => ({ status: 503 });
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);

  const indexer = await startIndexerProcess({ databaseUrl, chains: [{ chainId: 8453, url: `${proxy.url}/s3cret` }] });
  await until("the indexer waits", async () => indexer.output().includes("no RPC endpoint answers"));
  proxy.intercept = () => undefined;
  await untilIndexed(database, chain);

  // Also when it fails later, what is logged of it names the host and no more.
  proxy.intercept = () => ({ status: 503 });
  await until("an RPC error is logged", async () => indexer.output().includes("Received JSON-RPC error"));
  expect(indexer.output()).toContain(new URL(proxy.url).host);
  expect(indexer.output()).not.toContain("s3cret");
  await indexer.stop();
  expect(await indexer.exited).toEqual({ code: 0, signal: null });
});
