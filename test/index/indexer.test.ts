import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import pg from "pg";
import { type Hex, zeroHash } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeV1, encodeV2 } from "../../local/calls.ts";
import type { LocalChain } from "../../local/chain.ts";
import { findFreePort } from "../../process/ports.ts";
import { networks } from "../../registry/networks.ts";
import { startTestApi } from "../support/api.ts";
import { launchIndexerProcess, startIndexer, startIndexerProcess } from "../support/indexer.ts";
import { listProcesses } from "../support/processes.ts";
import { launchRpcProxy } from "../support/rpc-proxy.ts";
import {
  connectClient,
  createChain,
  createDatabase,
  launchChain,
  waitUntil,
  waitUntilIndexed,
} from "../support/setup.ts";

describe("npm run indexer refuses to start", () => {
  test("with bad settings, and exits with code 1, every problem and no stack trace", async () => {
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

  test("at a port in use", async () => {
    const chain = await createChain(8453);
    const indexer = await startIndexerProcess({
      databaseUrl: await createDatabase(),
      chains: [chain],
      env: { INDEXER_PORT: new URL(chain.url).port },
    });
    expect(await indexer.exited).toEqual({ code: 1, signal: null });
    expect(indexer.output()).toContain("set another INDEXER_PORT");
  });
});

describe("runIndexer() throws", () => {
  test("when an RPC is on another chain, before it stores anything", async () => {
    const [right, wrong] = [await createChain(8453), await createChain(10)];
    const databaseUrl = await createDatabase();
    const chains = [{ chainId: 8453, url: `${right.url},${wrong.url}` }];
    const indexer = await startIndexer({ databaseUrl, chains });
    await indexer.ended;
    expect(indexer.output()).toContain("is on chain 10, not on chain 8453");
    const { rows } = await (await connectClient(databaseUrl)).query(
      "select nspname from pg_namespace where nspname !~ '^(pg_|information_schema$|public$)'",
    );
    expect(rows).toEqual([]);
  });

  test("when the database is unreachable, without its password", async () => {
    const chains = [await createChain(8453)];
    const databaseUrl = `postgres://user:s3cret@127.0.0.1:${await findFreePort()}/app`;
    const indexer = await startIndexer({ databaseUrl, chains });
    await indexer.ended;
    expect(indexer.output()).toContain("ECONNREFUSED");
    expect(indexer.output()).not.toContain("s3cret");
  });
});

// The tests below share one indexer, of a ZK-stack network with its own v2 address, one with v1 only, and one with v2 only.

const CHAIN_IDS = [324, 10200, 59144];
let chains: LocalChain[];
let rpc: Awaited<ReturnType<typeof launchRpcProxy>>;
let indexer: Awaited<ReturnType<typeof launchIndexerProcess>>;
let database: pg.Client;
let databaseUrl: string;

beforeAll(async () => {
  chains = await Promise.all(CHAIN_IDS.map((chainId) => launchChain(chainId)));
  for (const { client, accounts, chainId } of chains) {
    const [from, delegate] = accounts;
    const { v1, v2 } = networks.get(chainId) ?? {};
    if (!from || !delegate) throw new Error(`Chain ${chainId} lacks accounts.`);
    const send = (to: Hex, data: Hex) =>
      client.sendTransaction({ account: from, chain: null, to, data, gas: 1_000_000n });
    if (v1) await send(v1.address, encodeV1("delegateForAll", [delegate, true]));
    if (v2) await send(v2.address, encodeV2("delegateAll", [delegate, zeroHash, true]));
    await client.mine({ blocks: 1 });
  }
  const [first, ...others] = chains;
  rpc = await launchRpcProxy(first?.url ?? "");
  rpc.intercept = () => ({ status: 503 });
  databaseUrl = await createDatabase();
  database = new pg.Client(databaseUrl);
  await database.connect();
  const endpoints = [{ chainId: first?.chainId ?? 0, url: `${rpc.url}/s3cret` }, ...others];
  indexer = await launchIndexerProcess({ databaseUrl, chains: endpoints });
});
afterAll(async () => {
  await database?.end();
  await indexer?.stop();
  rpc?.stop();
  for (const chain of chains ?? []) await chain.stop();
});

test("npm run indexer waits for an RPC that is not up yet, then indexes", async () => {
  await waitUntil("the indexer waits", () => indexer.output().includes("no RPC endpoint answers"));
  rpc.intercept = () => undefined;
  for (const chain of chains) await waitUntilIndexed(database, chain);
});

test("each network is indexed with its registries, and the API returns 400 for a registry that it lacks", async () => {
  const { rows } = await database.query(
    "select chain_id::int as chain, registry, event from registry.delegation_change order by 1, 2",
  );
  expect(rows).toEqual([
    { chain: 324, registry: "v2", event: "DelegateAll" },
    { chain: 10200, registry: "v1", event: "DelegateForAll" },
    { chain: 59144, registry: "v2", event: "DelegateAll" },
  ]);

  const api = await startTestApi({ databaseUrl });
  const [vault, delegate] = chains[0]?.accounts ?? [];
  for (const { chainId } of chains) {
    for (const version of ["v1", "v2"] as const) {
      const question = `/registry/${version}/check/all?delegate=${delegate}&vault=${vault}&chainId=${chainId}`;
      const response = await api.get(question);
      const refusal = expect.stringMatching(/has no v[12] registry on .*; v[12] is indexed here on/);
      const expected = networks.get(chainId)?.[version] ? [200, "true"] : [400, refusal];
      expect([response.status, await response.text()], question).toEqual(expected);
    }
  }
});

/** Lists the inodes of a process's open sockets. */
const listSockets = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${descriptor}`))?.[1] ?? [];
    } catch {
      // Closed in the meantime.
      return [];
    }
  });

const listeningSockets = () =>
  ["tcp", "tcp6"].flatMap((protocol) =>
    readFileSync(`/proc/net/${protocol}`, "utf8")
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      // State 0A: listening.
      .filter(([, , , state]) => state === "0A")
      .map(([, local = "", , , , , , , , socket = ""]) => ({ local, socket })),
  );

describe("Ponder's own HTTP server", () => {
  test.runIf(process.platform === "linux")("listens on loopback only, at one port", () => {
    const pids = [indexer.pid, ...listProcesses().flatMap(({ pid, parent }) => (parent === indexer.pid ? pid : []))];
    expect(pids.length).toBeGreaterThan(1);
    const sockets = new Set(pids.flatMap(listSockets));
    const port = indexer.port.toString(16).toUpperCase().padStart(4, "0");
    expect(listeningSockets().filter(({ socket }) => sockets.has(socket))).toEqual([
      { local: `0100007F:${port}`, socket: expect.any(String) },
    ]);
  });

  const others = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, scopeid }) => !internal && !scopeid)
    .map(({ address }) => address);
  test.skipIf(others.length === 0)("refuses connections to this machine's other addresses", async () => {
    for (const host of others) {
      const outcome = await new Promise((resolve) => {
        const socket = connect({ port: indexer.port, host }, () => resolve("connected"));
        socket.on("error", ({ code }: NodeJS.ErrnoException) => resolve(code));
      });
      expect(outcome, host).toBe("ECONNREFUSED");
    }
  });

  /** Sends a statement like the client of Ponder's SQL over HTTP. */
  const sql = async (text: string) => {
    const query = new URLSearchParams({ sql: JSON.stringify({ json: { sql: text, params: [] } }) });
    const response = await fetch(`http://127.0.0.1:${indexer.port}/sql/db?${query}`);
    return { status: response.status, body: await response.text() };
  };

  test("reads the index with SQL", async () => {
    const { status, body } = await sql("select count(*) from delegation_v2");
    expect({ status, rows: JSON.parse(body).rows }).toEqual({ status: 200, rows: [{ count: "2" }] });
  });

  const REFUSED = [
    "insert into indexed_block select * from indexed_block",
    "update indexed_block set number = 0",
    "delete from indexed_block",
    "truncate indexed_block",
    "drop table indexed_block",
    "with gone as (delete from indexed_block returning *) select * from gone",
    "select * into stolen from indexed_block",
    "create table stolen as select 1",
    "select 1; delete from indexed_block",
    "select * from indexed_block for update",
    "copy indexed_block to program 'id'",
    "set transaction read write",
    "select set_config('transaction_read_only', 'off', false)",
    // API keys, the server's files, sessions and passwords, and functions that affect other sessions.
    "select * from service.api_key",
    "select pg_read_file('/etc/passwd')",
    "select * from pg_ls_dir('.')",
    "select * from pg_stat_activity",
    "select * from pg_shadow",
    "select current_setting('data_directory')",
    "select pg_terminate_backend(1)",
    "select pg_sleep(10)",
    "select query_to_xml('select 1', true, true, '')",
    "select lo_import('/etc/passwd')",
  ];
  test.for(REFUSED)("refuses: %s", async (text) => {
    const { rows: before } = await database.query("select * from registry.indexed_block");
    const { status } = await sql(text);
    expect(status).toBe(500);
    const { rows: after } = await database.query("select chain_id from registry.indexed_block");
    expect(after).toHaveLength(before.length);
    expect((await sql("select 1")).status).toBe(200);
  });

  test("has no GraphQL mutations", async () => {
    const ask = async (query: string) => {
      const headers = { "Content-Type": "application/json" };
      const response = await fetch(`http://127.0.0.1:${indexer.port}/graphql`, {
        method: "POST",
        headers,
        body: JSON.stringify({ query }),
      });
      return response.json();
    };
    expect(await ask("{ __schema { mutationType { name } subscriptionType { name } } }")).toEqual({
      data: { __schema: { mutationType: null, subscriptionType: null } },
    });
    expect(await ask("mutation { x }")).toMatchObject({ errors: [expect.anything()] });
  });
});

test("the log of an RPC error shows only the host of the URL, and SIGTERM ends the indexer with code 0", async () => {
  rpc.intercept = () => ({ status: 503 });
  await waitUntil("an RPC error is logged", () => indexer.output().includes("Received JSON-RPC error"));
  expect(indexer.output()).toContain(new URL(rpc.url).host);
  expect(indexer.output()).not.toContain("s3cret");
  await indexer.stop();
  expect(await indexer.exited).toEqual({ code: 0, signal: null });
});
