import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PLANNING } from "../../api/database.ts";
import { checkStatement } from "../../api/queries/check-delegation.ts";
import { listStatement, shortListsStatement } from "../../api/queries/list-delegations.ts";
import { blocksOf, CHAINS } from "../../api/queries/read-shards.ts";
import { CHECKS } from "../../registry/check-rule.ts";
import { type ApiProcess as Api, FRESH_FOR_A_DAY, launchApiProcess } from "../support/api.ts";
import { residentMb, watchMemory } from "../support/measure.ts";
import { createMillionDatabase } from "../support/million.ts";
import { until } from "../support/setup.ts";

// What holds however much there is: over a million delegations in each registry.

let million: Awaited<ReturnType<typeof createMillionDatabase>>;
let api: Api;
beforeAll(async () => {
  million = await createMillionDatabase();
  api = await launchApiProcess({ databaseUrl: million.databaseUrl, env: FRESH_FOR_A_DAY });
}, 300_000);
afterAll(async () => {
  await api?.stop();
  await million?.client.end();
});

const STATEMENTS = (["v1", "v2"] as const).flatMap((version) => [
  ...CHECKS[version].flatMap((check) => [
    {
      name: `${version} ${check}, many`,
      text: checkStatement("registry", version, check, "many"),
      values: `array[1], array['0xa'], array['0xb'], array['0xc'], array[1], array['0xd']`,
    },
    {
      name: `${version} ${check}, one`,
      text: checkStatement("registry", version, check, "one"),
      values: `1, '0xa', '0xb', '0xc', 1, '0xd'`,
    },
  ]),
  ...[false, true].flatMap((hasDetails) => [
    ...["100", "null"].map((limit) => ({
      name: `${version} list`,
      text: listStatement({ schema: "registry", version, hasDetails }),
      values: `1, '0xa', -1, -1, -1, -1, ${limit}`,
    })),
    {
      name: `${version} short lists`,
      text: shortListsStatement({ schema: "registry", version, hasDetails }),
      values: `array[1, 1], array['0xa', '0xb']`,
    },
  ]),
]);

test.for([
  ["that has never been analyzed, as after a backfill", ""],
  ["with statistics", "analyze"],
] as const)("every statement finds its rows by an index in a table %s", async ([, prepare]) => {
  const client = new pg.Client({ connectionString: million.databaseUrl, options: PLANNING });
  await client.connect();
  if (prepare) await client.query(prepare);
  for (const { name, text, values } of STATEMENTS) {
    await client.query(`prepare asked as ${text}`);
    const { rows } = await client.query(`explain execute asked (${values})`);
    const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
    expect(plan, name).not.toContain("Seq Scan");
    expect(plan, name).toMatch(/Index (Only )?Scan using \S+ on delegation_v/);
    // A check goes by the whole key: not by all delegations of a wallet.
    if (!name.includes("list")) expect(plan, name).not.toMatch(/Scan using \S*(log_index)\S* on delegation_v/);
    // A list by the indexes that are for it: of what comes in, and of what goes out and not back to the wallet itself.
    for (const end of name.includes("list") ? ["vault", "delegate"] : []) {
      expect(plan, name).toMatch(new RegExp(`Scan using \\S*_${end}_block_number_log_index\\S* on delegation_v`));
    }
    await client.query("deallocate asked");
  }
  for (const [text, value] of [[CHAINS.text, "array['registry']"], [blocksOf("registry").text]]) {
    await client.query(`prepare asked as ${text}`);
    const { rows } = await client.query(`explain execute asked ${value ? `(${value})` : ""}`);
    expect(rows.map((row) => row["QUERY PLAN"]).join("\n")).not.toContain("Seq Scan");
    await client.query("deallocate asked");
  }
  await client.end();
});

const median = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

test("a check between wallets that share 10,000 delegations costs no more than between wallets that share one", async () => {
  const { few, many, contract } = million;
  const check = async ({ vault, delegate }: typeof few) => {
    const startedAt = performance.now();
    const response = await api.get(
      `/registry/v2/check/erc721?delegate=${delegate}&vault=${vault}&contract=${contract}&tokenId=5000`,
    );
    expect(await response.text()).toBe("true");
    return performance.now() - startedAt;
  };
  const times = { few: [] as number[], many: [] as number[] };
  for (let round = 0; round < 500; round++) {
    times.few.push(await check(few));
    times.many.push(await check(many));
  }
  const ratio = median(times.many) / median(times.few);
  console.log(`Median of one: ${median(times.few).toFixed(2)} ms, of 10,000: ${ratio.toFixed(2)} times that.`);
  expect(ratio).toBeLessThanOrEqual(1.5);
});

/** Reads a list as it arrives, and keeps no more than the token ids. */
const readTokenIds = async (path: string, onChunk: (chunks: number) => Promise<void> = async () => {}) => {
  const response = await api.get(path);
  expect(response.status).toBe(200);
  const ids: string[] = [];
  let text = "";
  let chunks = 0;
  for await (const chunk of response.body ?? []) {
    await onChunk(++chunks);
    text += Buffer.from(chunk).toString();
    const whole = text.lastIndexOf("}") + 1;
    for (const [, id] of text.slice(0, whole).matchAll(/"tokenId":(\d+)/g)) if (id) ids.push(id);
    text = text.slice(whole);
  }
  expect(text).toBe("]");
  return ids;
};

test("a list of 200,000 delegations is sent whole, while the process grows by less than 96 MB and nobody is held up", async () => {
  const path = `/registry/v2/${million.popular}`;
  await api.get(`${path}?limit=1000`).then((response) => response.text());
  await api.get(`${path}?limit=1000`).then((response) => response.text());

  const before = residentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const ids = await readTokenIds(path, async (chunks) => {
    if (chunks !== 100) return;
    // Half-way, an indexer could lock the tables, as it does in a reorg: nobody else has.
    const { rows: held } = await million.client.query(
      `select relation::regclass, mode from pg_locks join pg_stat_activity activity using (pid)
       where application_name = 'api' and activity.datname = current_database() and locktype = 'relation'`,
    );
    expect(held).toEqual([]);
  });
  const peak = readPeak();
  console.log(`Before ${before.toFixed(0)} MB, at most ${peak.toFixed(0)} MB.`);

  // All of them, the oldest first.
  expect(ids).toHaveLength(200_000);
  expect(ids.every((id, index) => id === String(index + 1))).toBe(true);
  // The parts that were sent, 30 MB in all, are collected when there are enough of them; the whole as rows would be 200 MB.
  expect(peak - before).toBeLessThan(96);
});

test("the pages of a list make up the list", async () => {
  const ids: string[] = [];
  let path: string | undefined = `/registry/v2/${million.popular}?limit=1000&details=true`;
  for (let pages = 0; path && pages < 30; pages++) {
    const response: Response = await api.get(path);
    const page = (await response.json()) as { tokenId: number; direction: string }[];
    expect(page).toHaveLength(1000);
    ids.push(...page.map(({ tokenId }) => String(tokenId)));
    path = /<(.*)>; rel="next"/.exec(response.headers.get("Link") ?? "")?.[1];
  }
  expect(ids).toEqual(Array.from({ length: 30_000 }, (_, index) => String(index + 1)));
});

test("a reader that goes away in the middle of a list leaves its place to others", async () => {
  for (let round = 0; round < 12; round++) {
    const leaving = new AbortController();
    const response = await api.get(`/registry/v2/${million.popular}`, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
  }
  expect(await readTokenIds(`/registry/v1/${million.popular}`)).toHaveLength(200_000);
});

test("a reader that goes away before it has read anything leaves its place to others", async () => {
  const list = `GET /registry/v2/${million.popular} HTTP/1.1\r\nHost: x\r\n\r\n`;
  for (let round = 0; round < 12; round++) {
    const socket = connect(api.port, "127.0.0.1");
    socket.write(list);
    // Some leave while the list is being looked for, some when it has been found.
    await sleep(round * 20);
    socket.destroy();
  }
  const isSent = async () => {
    const response = await api.get(`/registry/v1/${million.popular}`);
    await response.body?.cancel();
    return response.ok;
  };
  await until("long lists are sent", isSent, 20);

  // Several at once over one connection: the later ones never get their turn.
  const greedy = connect(api.port, "127.0.0.1");
  greedy.write(list.repeat(4));
  await sleep(1500);
  greedy.destroy();
  await until("long lists are sent again", isSent, 60);
  expect(await readTokenIds(`/registry/v1/${million.popular}`)).toHaveLength(200_000);
}, 120_000);

test("a list that cannot be read to its end breaks off, and is taken for the whole by nobody", async () => {
  const response = await api.get(`/registry/v2/${million.popular}`);
  const reader = response.body?.getReader();
  if (!reader) throw new Error("The list has no body.");
  let text = Buffer.from((await reader.read()).value ?? []).toString();
  const { rows } = await million.client.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'api' and datname = current_database() and query like 'fetch%'",
  );
  expect(rows.length).toBeGreaterThan(0);

  const readOn = async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += Buffer.from(value).toString();
    }
  };
  await expect(readOn()).rejects.toThrow();
  expect(() => JSON.parse(text)).toThrow();
  expect(text).not.toMatch(/error/i);
  expect((await api.get(`/registry/v2/${million.popular}?limit=1`)).status).toBe(200);
});
