import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import pg from "pg";
import { maxUint256, stringToHex } from "viem";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createSampleDatabase } from "../support/api.ts";
import { parseCsv, peakMemory, runExport, startExport } from "../support/export.ts";
import { rolesFor, runRoles } from "../support/roles.ts";
import { connect, createDatabase, until } from "../support/setup.ts";

const LARGE = 400_000;
const RIGHTS = 'say "hi", twice';

let databaseUrl: string;
let newest: number;

/** Changes of chain 1, of other wallets, as an indexer would have written them. */
const addChanges = async (database: pg.Client, count: number, values: object) => {
  const { rows } = await database.query("select schema from indexer.shard");
  const table = `${rows[0].schema}.delegation_change`;
  await database.query("set session_replication_role = replica");
  await database.query(
    `insert into ${table} select (jsonb_populate_record(change, $1::jsonb || jsonb_build_object('ordinal', 1000 + i,
       'vault', '0x' || lpad(md5('vault' || i), 40, '0'), 'delegate', '0x' || lpad(md5('delegate' || i % 1000), 40, '0'),
       'transaction_hash', '0x' || md5('a' || i) || md5('b' || i)))).*
     from (select change from ${table} change where chain_id = 1 and type = 'ERC1155' limit 1) one, generate_series(1, $2) i`,
    [JSON.stringify(values), count],
  );
};

beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  // As JSON they would be rounded; as texts they are not.
  const numbers = { token_id: String(maxUint256), amount: String(maxUint256 - 1n) };
  await addChanges(client, 1, { ...numbers, rights: stringToHex(RIGHTS, { size: 32 }) });
  const { rows } = await client.query("select indexed_block from analytics.chains where chain_id = 1");
  newest = Number(rows[0].indexed_block);
  await client.end();
});

const createFolder = async () => {
  const folder = await mkdtemp(join(tmpdir(), "delegation-registry-export-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
};

const queryOf = (what: string, block: number) =>
  what === "changes"
    ? `select * from analytics.changes where chain_id = 1 and block_number <= ${block} order by block_number, log_index, ordinal`
    : `select * from analytics.delegations_at(1, ${block})
       order by block_number, log_index, registry, vault, delegate, type, token_standard, contract, token_id, rights`;

/** Every cell as Postgres writes it. */
const readTexts = async (what: string, block: number) => {
  const database = await connect(databaseUrl);
  await database.query("set timezone = 'UTC'");
  const { rows, fields } = await database.query<(string | null)[]>({
    text: queryOf(what, block),
    rowMode: "array",
    types: { getTypeParser: () => (text: string) => text },
  });
  return [fields.map(({ name }) => name), ...rows];
};

const readParquet = async (filename: string) => {
  const file = await asyncBufferFromFile(filename);
  const { key_value_metadata: notes = [] } = await parquetMetadataAsync(file);
  const rows = await parquetReadObjects({ file });
  return { rows, notes: Object.fromEntries(notes.map(({ key, value }) => [key, value])) };
};

describe("a file has the rows that SQL has", () => {
  const cases = [
    ["changes", "the newest block", 0],
    ["changes", "a past block", 3],
    ["state", "the newest block", 0],
    ["state", "a past block", 3],
  ] as const;

  /** Exports to a file, as a person would ask for it. */
  const exportTo = async (file: string, format: string, what: string, back: number) => {
    const block = newest - back;
    const at = back ? ["--block", String(block)] : [];
    const args = ["--format", format, "--what", what, "--chain", "1", ...at, "--out", file];
    return { block, ...(await runExport(databaseUrl, ...args)) };
  };

  test.each(cases)("%s at %s, as CSV", async (what, _, back) => {
    const file = join(await createFolder(), "rows.csv");
    const { block, code, output } = await exportTo(file, "csv", what, back);
    expect(code, output).toBe(0);
    expect(output).toContain(`of chain 1 at block ${block}.`);
    const cells = parseCsv(await readFile(file, "utf8"));
    expect(cells.length).toBeGreaterThan(5);
    expect(cells).toEqual(await readTexts(what, block));
  });

  test.each(cases)("%s at %s, as Parquet", async (what, _, back) => {
    const file = join(await createFolder(), "rows.parquet");
    const { block, code, output } = await exportTo(file, "parquet", what, back);
    expect(code, output).toBe(0);
    const { rows, notes } = await readParquet(file);
    expect(notes).toMatchObject({ what, chain_id: "1", block: String(block) });

    const [names = [], ...texts] = await readTexts(what, block);
    expect(Object.keys(rows[0] ?? {})).toEqual(names);
    const cellText = (cell: unknown) => {
      if (cell instanceof Date) return cell.toISOString().replace("T", " ").replace(".000Z", "+00");
      return typeof cell === "boolean" ? String(cell).slice(0, 1) : cell == null ? null : String(cell);
    };
    expect(rows.map((row) => names.map((name) => cellText(row[name ?? ""])))).toEqual(texts);
    // What is a number stays one, as long as it fits.
    expect(rows[0]).toMatchObject({
      chain_id: 1n,
      block_number: expect.any(BigInt),
      block_timestamp: expect.any(Date),
    });
  });

  test("with numbers of 78 digits to the last one, and rights with quotes and commas", async () => {
    const folder = await createFolder();
    const [csv, parquet] = [join(folder, "rows.csv"), join(folder, "rows.parquet")];
    for (const [format, file] of [
      ["csv", csv],
      ["parquet", parquet],
    ] as const) {
      expect(await runExport(databaseUrl, "--format", format, "--chain", "1", "--out", file)).toMatchObject({
        code: 0,
      });
    }
    const [names = [], ...rows] = parseCsv(await readFile(csv, "utf8"));
    const row = rows.find((cells) => cells[names.indexOf("rights_text")] === RIGHTS);
    expect(row?.[names.indexOf("token_id")]).toBe(String(maxUint256));
    expect((await readParquet(parquet)).rows.find(({ rights_text }) => rights_text === RIGHTS)).toMatchObject({
      token_id: String(maxUint256),
      amount: String(maxUint256 - 1n),
    });
  });
});

test("an analyst's role is all that it needs", async () => {
  const { env, urls } = rolesFor(await createSampleDatabase());
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  const folder = await createFolder();
  for (const format of ["csv", "parquet"]) {
    const out = join(folder, `state.${format}`);
    const { code, output } = await runExport(
      urls.analyst,
      "--format",
      format,
      "--what",
      "state",
      "--chain",
      "137",
      "--out",
      out,
    );
    expect({ code, output }).toMatchObject({ code: 0 });
    expect(output).not.toContain("secret");
  }
});

describe("what cannot be answered is no file", () => {
  const expectRefusal = async (url: string, args: readonly string[], reason: RegExp) => {
    const folder = await createFolder();
    // What is there from before stays.
    const out = join(folder, "rows.csv");
    await writeFile(out, "before");
    const { code, output } = await runExport(url, "--format", "csv", "--out", out, ...args);
    expect(code).toBe(1);
    expect(output).toMatch(reason);
    expect(output).not.toMatch(/at .*\.ts:/);
    expect(await readdir(folder)).toEqual(["rows.csv"]);
    expect(await readFile(out, "utf8")).toBe("before");
  };

  test("a chain that is not indexed", () =>
    expectRefusal(databaseUrl, ["--chain", "10"], /Chain 10 is not indexed here. Indexed are: 1, 137/));
  test("a block that is not indexed yet", () =>
    expectRefusal(
      databaseUrl,
      ["--chain", "1", "--block", String(newest + 1)],
      /Block \d+ of chain 1 is not indexed yet: the newest indexed block is \d+/,
    ));
  test("an index that is catching up", async () => {
    const url = await createSampleDatabase();
    const database = await connect(url);
    await database.query("update indexer.shard set caught_up = false");
    await expectRefusal(
      url,
      ["--chain", "1"],
      /Chain 1 is still being indexed: its index has reached block \d+ of \d+/,
    );
  });
  test("a database without an index", async () =>
    expectRefusal(await createDatabase(), ["--chain", "1"], /no schema "analytics"/));
  test("arguments that make no sense, all of them", () =>
    expectRefusal(
      databaseUrl,
      ["--what", "all", "--chain", "x", "--block", "1.5"],
      /--what must be changes or state\.\n.*--chain must be a whole number.*\n.*--block must be a whole number/,
    ));
  test("one that it does not know", () => expectRefusal(databaseUrl, ["--chain", "1", "--table", "x"], /--table/));
});

describe("a large table", () => {
  let largeUrl: string;
  beforeAll(async () => {
    largeUrl = await createSampleDatabase();
    const client = new pg.Client(largeUrl);
    await client.connect();
    await client.query("set synchronous_commit = off");
    await addChanges(client, LARGE, {});
    await client.end();
  }, 300_000);

  test.each([
    ["csv", 80],
    ["parquet", 20],
  ])("is written as %s in bounded memory, and tells how far it is", async (format, megabytes) => {
    const small = startExport(
      databaseUrl,
      "--format",
      format,
      "--chain",
      "1",
      "--out",
      join(await createFolder(), "small"),
    );
    const out = join(await createFolder(), "large");
    const large = startExport(largeUrl, "--format", format, "--chain", "1", "--out", out);
    const peaks = { small: 0, large: 0 };
    const watching = setInterval(() => {
      peaks.small = Math.max(peaks.small, peakMemory(small.pid));
      peaks.large = Math.max(peaks.large, peakMemory(large.pid));
    }, 20);
    const startedAt = Date.now();
    const [, { code }] = await Promise.all([small.exited, large.exited]);
    clearInterval(watching);
    expect(code, large.output()).toBe(0);
    const { size } = await stat(out);
    console.log(
      `${format}: ${LARGE} rows, ${Math.round(size / 1e6)} MB in ${Date.now() - startedAt} ms; ` +
        `${Math.round(peaks.large)} MB of memory at most, ${Math.round(peaks.small)} MB for a small one.`,
    );
    expect(large.output()).toMatch(/400,0\d\d rows/);
    expect(peaks.large - peaks.small).toBeLessThan(200);
    expect(size).toBeGreaterThan(megabytes * 1e6);
    if (format === "parquet") {
      const metadata = await parquetMetadataAsync(await asyncBufferFromFile(out));
      expect(Number(metadata.num_rows)).toBeGreaterThan(LARGE);
      expect(metadata.row_groups.length).toBeGreaterThan(10);
    }
  });

  test.each(["csv", "parquet"])("that is interrupted leaves nothing behind, as %s", async (format) => {
    const folder = await createFolder();
    const start = () => startExport(largeUrl, "--format", format, "--chain", "1", "--out", join(folder, "large"));
    const isUnderWay = async () => {
      const [name] = await readdir(folder);
      return name !== undefined && (await stat(join(folder, name)).catch(() => ({ size: 0 }))).size > 1e6;
    };
    // By whoever started it.
    const stopped = start();
    await until("it is under way", isUnderWay, 30);
    expect(await readdir(folder)).toEqual([expect.stringMatching(/^large\.part-\d+$/)]);
    await stopped.stop();
    expect(await stopped.exited).toEqual({ code: 1, signal: null });
    expect(await readdir(folder)).toEqual([]);

    // By the database.
    const cut = start();
    await until("it is under way", isUnderWay, 30);
    const database = await connect(largeUrl);
    await database.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'export' and datname = current_database()",
    );
    expect(await cut.exited).toEqual({ code: 1, signal: null });
    expect(await readdir(folder)).toEqual([]);

    // The hard way: what is left does not look like the file.
    const killed = start();
    await until("it is under way", isUnderWay, 30);
    process.kill(killed.pid, "SIGKILL");
    await killed.exited;
    await sleep(100);
    expect(await readdir(folder)).toEqual([expect.stringMatching(/^large\.part-\d+$/)]);
  });
});
