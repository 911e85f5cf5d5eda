import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { connect as connectTo } from "node:net";
import { networkInterfaces } from "node:os";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LocalChain } from "../../sandbox/chain.ts";
import { launchIndexerProcess } from "../support/indexer-process.ts";
import { runningProcesses } from "../support/processes.ts";
import { createDatabase, launchChain, untilIndexed } from "../support/setup.ts";

// Ponder's own HTTP server: for the operator and data teams, and nobody else. docs/security.md says so.

let chain: LocalChain;
let indexer: Awaited<ReturnType<typeof launchIndexerProcess>>;
let database: pg.Client;
let url: string;
beforeAll(async () => {
  const databaseUrl = await createDatabase();
  chain = await launchChain(1);
  indexer = await launchIndexerProcess({ databaseUrl, chains: [chain] });
  url = `http://127.0.0.1:${indexer.port}`;
  database = new pg.Client(databaseUrl);
  await database.connect();
  await untilIndexed(database, chain);
  await database.query("create schema service; create table service.api_key (hash text)");
});
afterAll(async () => {
  await database?.end();
  await indexer?.stop();
  await chain?.stop();
});

/** The numbers of the sockets that a process has open. */
const socketsOf = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${descriptor}`))?.[1] ?? [];
    } catch {
      // It has been closed meanwhile.
      return [];
    }
  });

const listeningSockets = () =>
  ["tcp", "tcp6"].flatMap((protocol) =>
    readFileSync(`/proc/net/${protocol}`, "utf8")
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      // State 0A: it listens.
      .filter(([, , , state]) => state === "0A")
      .map(([, local = "", , , , , , , , socket = ""]) => ({ local, socket })),
  );

describe("nobody but this machine reaches it", () => {
  test.runIf(process.platform === "linux")("the indexer listens on loopback, at one port and no other", () => {
    const pids = [indexer.pid, ...runningProcesses().flatMap(({ pid, parent }) => (parent === indexer.pid ? pid : []))];
    expect(pids.length).toBeGreaterThan(1);
    const sockets = new Set(pids.flatMap(socketsOf));
    const port = indexer.port.toString(16).toUpperCase().padStart(4, "0");
    expect(listeningSockets().filter(({ socket }) => sockets.has(socket))).toEqual([
      { local: `0100007F:${port}`, socket: expect.any(String) },
    ]);
  });

  const others = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, scopeid }) => !internal && !scopeid)
    .map(({ address }) => address);
  test.skipIf(others.length === 0)("it refuses connections to this machine's other addresses", async () => {
    for (const host of others) {
      const outcome = await new Promise((resolve) => {
        const socket = connectTo({ port: indexer.port, host }, () => resolve("connected"));
        socket.on("error", ({ code }: NodeJS.ErrnoException) => resolve(code));
      });
      expect(outcome, host).toBe("ECONNREFUSED");
    }
  });
});

/** As the client of Ponder's SQL over HTTP sends a statement. */
const sql = async (text: string) => {
  const query = new URLSearchParams({ sql: JSON.stringify({ json: { sql: text, params: [] } }) });
  const response = await fetch(`${url}/sql/db?${query}`);
  return { status: response.status, body: await response.text() };
};

describe("what can be asked of it changes nothing, and shows nothing but the index", () => {
  test("SQL reads the index", async () => {
    const { status, body } = await sql("select count(*) from delegation_v2");
    expect({ status, rows: JSON.parse(body).rows }).toEqual({ status: 200, rows: [{ count: "0" }] });
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
    // The API's keys, the server's files, sessions and passwords, and other sessions' lives.
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
  test.each(REFUSED)("it refuses: %s", async (text) => {
    const { rows: before } = await database.query("select * from registry.indexed_block");
    const { status } = await sql(text);
    expect(status).toBe(500);
    const { rows: after } = await database.query("select chain_id from registry.indexed_block");
    expect(after).toHaveLength(before.length);
    expect((await sql("select 1")).status).toBe(200);
  });

  test("GraphQL has no mutations", async () => {
    const ask = async (query: string) => {
      const headers = { "Content-Type": "application/json" };
      const response = await fetch(`${url}/graphql`, { method: "POST", headers, body: JSON.stringify({ query }) });
      return response.json();
    };
    expect(await ask("{ __schema { mutationType { name } subscriptionType { name } } }")).toEqual({
      data: { __schema: { mutationType: null, subscriptionType: null } },
    });
    expect(await ask("mutation { x }")).toMatchObject({ errors: [expect.anything()] });
  });
});
