import { parseArgs } from "node:util";
import { serve } from "@hono/node-server";
import { and, asc, eq, gte, ne } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { Hono } from "hono";
import pg from "pg";
import { type Address, zeroAddress, zeroHash } from "viem";
import { indexTables } from "../api/database/tables.ts";
import { checksumAddress, checksumContract } from "../api/delegations/checksum-address.ts";

// Baselines: plain Hono routes, written without any regard to speed.
//
//   node --import tsx bench/baselines.ts --port 9000 --database-url postgres://… --schema registry_…

const { values: options } = parseArgs({
  options: { port: { type: "string" }, "database-url": { type: "string" }, schema: { type: "string" } },
});
const { port, schema } = options;
const databaseUrl = options["database-url"];
if (!port || !databaseUrl || !schema) throw new Error("Needs --port, --database-url and --schema.");

const CHAIN_ID = 1;

const pool = new pg.Pool({
  connectionString: databaseUrl,
  max: 8,
  options: `-c search_path=${schema}`,
  // Keep idle connections while others are measured: reconnecting is not part of the comparison.
  idleTimeoutMillis: 0,
});
const db = drizzle(pool, { casing: "snake_case" });
const { delegationV2 } = indexTables(schema);

const app = new Hono();

/** A route without a database. */
app.get("/bare", (c) => c.json(true));

const CHECK = `
  select 1 from delegation_v2
  where chain_id = $1 and vault = $2 and delegate = $3 and type = 'ALL' and contract = $4 and token_id = 0 and rights = $5`;

/** The v2 check of an entire wallet by primary key, with one statement per request. */
app.get("/query", async (c) => {
  const { to, from } = c.req.query();
  const { rows } = await pool.query({
    name: "check",
    text: CHECK,
    values: [CHAIN_ID, from?.toLowerCase(), to?.toLowerCase(), zeroAddress, zeroHash],
  });
  return c.json(rows.length > 0);
});

const LIST_COLUMNS = {
  type: delegationV2.type,
  vault: delegationV2.vault,
  delegate: delegationV2.delegate,
  contract: delegationV2.contract,
  tokenId: delegationV2.tokenId,
};

/** The service's v2 list of a wallet, with its checksums, through drizzle's rows and JSON.stringify. */
app.get("/list-drizzle/:wallet", async (c) => {
  const wallet = c.req.param("wallet").toLowerCase() as Address;
  // Postgres uses the partial indexes for lists only with this condition: see ponder.schema.ts.
  const onChain = and(eq(delegationV2.chainId, CHAIN_ID), gte(delegationV2.blockNumber, 0n));
  const oldestFirst = [asc(delegationV2.blockNumber), asc(delegationV2.logIndex)];
  const [incoming, outgoing] = await Promise.all([
    db
      .select(LIST_COLUMNS)
      .from(delegationV2)
      .where(and(onChain, eq(delegationV2.delegate, wallet)))
      .orderBy(...oldestFirst),
    db
      .select(LIST_COLUMNS)
      .from(delegationV2)
      .where(and(onChain, eq(delegationV2.vault, wallet), ne(delegationV2.delegate, wallet)))
      .orderBy(...oldestFirst),
  ]);
  const list = [...incoming, ...outgoing].map(({ type, vault, delegate, contract, tokenId }) => ({
    type: type === "ALL" || type === "CONTRACT" ? type : "TOKEN",
    from: checksumAddress(vault),
    to: checksumAddress(delegate),
    contract: type === "ALL" ? null : checksumContract(contract),
    tokenId: type === "ERC721" || type === "ERC1155" ? tokenId : null,
  }));
  const json = JSON.stringify(list, (_, value) => (typeof value === "bigint" ? String(value) : value));
  return c.body(json, 200, { "Content-Type": "application/json" });
});

serve({ fetch: app.fetch, port: Number(port), hostname: "127.0.0.1" }, () => {
  console.log(`Listening on http://127.0.0.1:${port}`);
});
