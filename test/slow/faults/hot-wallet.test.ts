import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { networks } from "../../../registry/networks.ts";
import { type ApiProcess, createSampleDatabase, FRESH_FOR_A_DAY, startTestApiProcess } from "../../support/api.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { observeBystander, popularTest } from "../../support/service-test.ts";
import { connectClient } from "../../support/setup.ts";

// Many clients request one wallet to which many others have delegated.

const FANS = 100_000;
/** More long lists than the API sends concurrently. */
const READERS = 6;
const PAGERS = 6;
const CHECKERS = 24;
/** Occurs once in each delegation of the list. */
const NAME = '"from"';
const RETRY_MS = 500;
const PAUSE_MS = 50;

const test = popularTest.extend("fans", FANS);

/** Counts the complete list as it arrives, and retries after a 503. */
const readAll = async (api: ApiProcess, path: string): Promise<{ found: number; refused: number }> => {
  for (let refused = 0; ; refused++) {
    const response = await api.get(path);
    if (response.status === 503) {
      expect(response.headers.get("Retry-After")).toMatch(/^\d+$/);
      await response.text();
      await sleep(RETRY_MS);
      continue;
    }
    expect(response.status).toBe(200);
    let found = 0;
    let rest = "";
    for await (const chunk of response.body ?? []) {
      const text = rest + Buffer.from(chunk).toString("latin1");
      found += text.split(NAME).length - 1;
      // A name may span two chunks.
      rest = text.slice(1 - NAME.length);
    }
    return { found, refused };
  }
};

test(`${READERS + PAGERS + CHECKERS} clients of a wallet with ${FANS} delegations use less than 200 MB, and other clients are served`, async ({
  service: api,
  popular,
}) => {
  const path = `/registry/v2/${popular}`;
  for (let round = 0; round < 3; round++) await (await api.get(`${path}?limit=1000`)).text();

  let isOver = false;
  const repeat = async (ask: () => Promise<void>) => {
    while (!isOver) {
      await ask();
      await sleep(PAUSE_MS);
    }
  };
  const statuses = new Map<number, number>();
  const note = (status: number) => statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const askPage = async () => {
    const response = await api.get(`${path}?limit=1000`);
    note(response.status);
    const page = await response.json();
    if (response.ok) expect(page).toHaveLength(1000);
  };
  const askCheck = async () => {
    const response = await api.get(`/registry/v2/check/all?to=${popular}&from=${popular}`);
    note(response.status);
    expect(["false", expect.stringContaining("overloaded")]).toContainEqual(await response.text());
  };
  const others = [
    ...Array.from({ length: PAGERS }, () => askPage),
    ...Array.from({ length: CHECKERS }, () => askCheck),
  ];
  let lists: Awaited<ReturnType<typeof readAll>>[] = [];
  const { meanwhile, grownMb } = await observeBystander(api, async () => {
    const asking = Promise.all(others.map(repeat));
    lists = await Promise.all(Array.from({ length: READERS }, () => readAll(api, path))).finally(() => {
      isOver = true;
    });
    await asking;
  });
  console.log(
    `${lists.reduce((sum, { refused }) => sum + refused, 0)} lists had to wait for a slot. ` +
      `Pages and checks: ${[...statuses].map(([status, count]) => `${count} × ${status}`).join(", ")}.`,
  );
  expect(lists.map(({ found }) => found)).toEqual(lists.map(() => FANS));
  expect(grownMb).toBeLessThan(200);
  expect(meanwhile.slowest).toBeLessThan(5_000);
  expect([...statuses.keys()].filter((status) => status !== 200 && status !== 503)).toEqual([]);
}, 600_000);

/** Ten networks with the same registries as Ethereum. */
const NETWORKS = [...networks]
  .filter(
    ([, { v1, v2 }]) => v1?.address === networks.get(1)?.v1?.address && v2?.address === networks.get(1)?.v2?.address,
  )
  .map(([chainId]) => chainId)
  .sort((a, b) => a - b)
  .slice(0, 10);
const POPULAR = `0x${"fa".repeat(20)}`;
const ORDINARY = `0x${"0d".repeat(20)}`;
const OF_PAGE = 100;

/** Creates an index of ten networks in which others have delegated their whole wallet to two wallets: many, and few. */
const createNetworks = async () => {
  const databaseUrl = await createSampleDatabase();
  const client = await connectClient(databaseUrl);
  const schema = await readServedSchema(client);
  await client.query("set session_replication_role = replica; set synchronous_commit = off");
  for (const chainId of NETWORKS.filter((id) => id !== 1 && id !== 137)) {
    for (const table of ["indexer.chain", `${schema}.indexed_block`, `${schema}._ponder_checkpoint`]) {
      await client.query(
        `insert into ${table} select (jsonb_populate_record(row, jsonb_build_object('chain_id', ${chainId}, 'chain_name', ${chainId}))).*
         from ${table} row where chain_id = 1`,
      );
    }
  }
  const zero = (length: number) => `'0x${"0".repeat(length)}'`;
  /** Inserts a delegation for each block. */
  const insert = async (wallet: string, firstBlock: number, count: number) => {
    const insertInto = (table: string, columns: string, values: string) =>
      client.query(
        `insert into ${schema}.${table} (chain_id, vault, delegate, type, contract, token_id, rights, amount,
           block_number, log_index, block_timestamp, transaction_hash ${columns})
         select chain_id, '0x' || lpad(md5(block::text), 40, '0'), '${wallet}', 'ALL', ${zero(40)}, 0, ${zero(64)}, 0,
           block, 0, 1600000000 + block, '0x' || repeat(md5(block::text), 2) ${values}
         from generate_series(${firstBlock}, ${firstBlock + count - 1}) block, unnest(array[${NETWORKS.join()}]) chain_id`,
      );
    await insertInto("delegation_v2", "", "");
    await insertInto(
      "delegation_change",
      ", ordinal, registry, active, was_active, event, made_block, made_log_index",
      ", 0, 'v2', true, false, 'DelegateAll', block, 0",
    );
  };
  await insert(ORDINARY, 1_000, OF_PAGE / NETWORKS.length);
  await insert(POPULAR, 2_000, FANS / NETWORKS.length);
  return databaseUrl;
};

test(`a first page of a wallet with ${FANS} delegations on ten networks takes as long as any other`, async () => {
  const own = await startTestApiProcess({ databaseUrl: await createNetworks(), env: FRESH_FOR_A_DAY });
  const measure = async (path: string): Promise<number> => {
    const startedAt = performance.now();
    const response = await own.get(path);
    const page = (await response.json()) as Record<string, unknown[]>;
    expect(response.status, JSON.stringify(page)).toBe(200);
    expect(Object.keys(page.blocks ?? {})).toHaveLength(NETWORKS.length);
    expect(page[path.replace(/^.*\/(\w+).*$/, "$1").replace("history", "changes")]).toHaveLength(OF_PAGE);
    return performance.now() - startedAt;
  };
  const past = "timestamp=1650000000";
  for (const list of ["vaults", `vaults?${past}`, "delegations", `delegations?${past}`, "history"]) {
    const durations: Record<string, number[]> = { [POPULAR]: [], [ORDINARY]: [] };
    for (let round = 0; round < 15; round++) {
      for (const [wallet, taken] of Object.entries(durations)) taken.push(await measure(`/wallets/${wallet}/${list}`));
    }
    const [popularMs = 0, ordinaryMs = 0] = [POPULAR, ORDINARY].map(
      (wallet) => durations[wallet]?.toSorted((a, b) => a - b)[7],
    );
    console.log(`${list}: ${popularMs.toFixed(1)} ms, of an ordinary wallet ${ordinaryMs.toFixed(1)} ms`);
    expect(popularMs / ordinaryMs, list).toBeLessThan(8);
  }
}, 600_000);
