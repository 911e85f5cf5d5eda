import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import pg from "pg";
import { maxUint256, stringToHex } from "viem";
import { beforeAll, describe, expect, test } from "vitest";
import { exportCommand } from "../../commands/export/export-command.ts";
import { createSampleDatabase } from "../support/api.ts";
import { addChanges, createFolder, createRoleSettings, runExport, runRoles, startExport } from "../support/commands.ts";
import { connectClient, createDatabase } from "../support/setup.ts";

const RIGHTS = 'say "hi", twice';

let databaseUrl: string;
let newest: number;

beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const numbers = { token_id: String(maxUint256), amount: String(maxUint256 - 1n) };
  await addChanges(client, 1, { ...numbers, rights: stringToHex(RIGHTS, { size: 32 }) });
  const { rows } = await client.query("select indexed_block from analytics.chains where chain_id = 1");
  newest = Number(rows[0].indexed_block);
  await client.end();
});

const queryOf = (what: string, block: number) =>
  what === "changes"
    ? `select * from analytics.changes where chain_id = 1 and block_number <= ${block} order by block_number, log_index, ordinal`
    : `select * from analytics.delegations_at(1, ${block})
       order by block_number, log_index, registry, vault, delegate, type, token_standard, contract, token_id, rights`;

type Cells = (string | null)[];

/** Reads every cell as Postgres' text, after a line of column names. */
const readTexts = async (what: string, block: number): Promise<Cells[]> => {
  const database = await connectClient(databaseUrl);
  await database.query("set timezone = 'UTC'");
  const { rows, fields } = await database.query<Cells>({
    text: queryOf(what, block),
    rowMode: "array",
    types: { getTypeParser: () => (text: string) => text },
  });
  return [fields.map(({ name }) => name), ...rows];
};

/** Reads the cells of a CSV file by line; null for an empty cell without quotes. */
const readCsv = async (file: string): Promise<Cells[]> =>
  (await readFile(file, "utf8"))
    .trimEnd()
    .split("\n")
    .map((line) =>
      [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
        ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? (plain || null),
      ),
    );

const readParquet = async (filename: string) => {
  const file = await asyncBufferFromFile(filename);
  const { key_value_metadata: notes = [] } = await parquetMetadataAsync(file);
  const rows = await parquetReadObjects({ file });
  return { rows, notes: Object.fromEntries(notes.map(({ key, value }) => [key, value])) };
};

/** Formats a cell of a Parquet file like Postgres. */
const formatCell = (cell: unknown) => {
  if (cell instanceof Date) return cell.toISOString().replace("T", " ").replace(".000Z", "+00");
  return typeof cell === "boolean" ? String(cell).slice(0, 1) : cell == null ? null : String(cell);
};

describe.for([
  ["changes", "the newest block", 0],
  ["changes", "a past block", 3],
  ["state", "the newest block", 0],
  ["state", "a past block", 3],
] as const)("export of %s at %s has the rows of SQL", ([what, , back]) => {
  const exportAs = async (format: string) => {
    const file = join(await createFolder(), `rows.${format}`);
    const block = newest - back;
    const at = back ? ["--block", String(block)] : [];
    const args = ["--format", format, "--what", what, "--chain", "1", ...at, "--out", file];
    const { code, output } = await runExport(databaseUrl, ...args);
    expect(code, output).toBe(0);
    expect(output).toContain(`of chain 1 at block ${block}.`);
    const texts = await readTexts(what, block);
    expect(texts.length).toBeGreaterThan(5);
    // Error-prone cells: 78 digits, quotes and commas.
    if (what === "changes" && back === 0) {
      const hard = [String(maxUint256), String(maxUint256 - 1n), RIGHTS];
      expect(texts).toContainEqual(expect.arrayContaining(hard));
    }
    return { file, block, texts };
  };

  test("as CSV", async () => {
    const { file, texts } = await exportAs("csv");
    expect(await readCsv(file)).toEqual(texts);
  });

  test("as Parquet, with native numbers and times where they fit", async () => {
    const { file, block, texts } = await exportAs("parquet");
    const { rows, notes } = await readParquet(file);
    expect(notes).toMatchObject({ what, chain_id: "1", block: String(block) });
    const [names = [], ...cells] = texts;
    expect(Object.keys(rows[0] ?? {})).toEqual(names);
    expect(rows.map((row) => names.map((name) => formatCell(row[name ?? ""])))).toEqual(cells);
    expect(rows[0]).toMatchObject({
      chain_id: 1n,
      block_number: expect.any(BigInt),
      block_timestamp: expect.any(Date),
    });
  });
});

test("export works with the analyst's role, and shows no password", async () => {
  const { env, urls } = createRoleSettings(await createSampleDatabase());
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  const folder = await createFolder();
  for (const format of ["csv", "parquet"]) {
    const args = ["--format", format, "--what", "state", "--chain", "137", "--out", join(folder, `state.${format}`)];
    const { code, output } = await runExport(urls.analyst, ...args);
    expect(code, output).toBe(0);
    expect(output).not.toContain("secret");
  }
});

test("npm run export writes the file and ends with code 0, or with code 1 for bad arguments", async () => {
  const out = join(await createFolder(), "rows.csv");
  const exported = startExport(databaseUrl, "--format", "csv", "--what", "state", "--chain", "1", "--out", out);
  const refused = startExport(databaseUrl, "--table", "x");
  expect(await exported.exited, exported.output()).toEqual({ code: 0, signal: null });
  expect(await readCsv(out)).toEqual(await readTexts("state", newest));
  expect(await refused.exited).toEqual({ code: 1, signal: null });
  expect(refused.output()).toContain("--table");
});

test("an aborted export ends with code 1 and leaves no file", async () => {
  const folder = await createFolder();
  const aborting = new AbortController();
  const code = await exportCommand(["--format", "csv", "--chain", "1", "--out", join(folder, "rows.csv")], {
    environment: { DATABASE_URL: databaseUrl },
    say: () => aborting.abort(),
    signal: aborting.signal,
  });
  expect([code, await readdir(folder)]).toEqual([1, []]);
});

describe("export ends with code 1 and keeps an existing file for", () => {
  const catchingUp = async () => {
    const url = await createSampleDatabase();
    await (await connectClient(url)).query("update indexer.shard set caught_up = false");
    return url;
  };
  const sample = async () => databaseUrl;

  test.for([
    ["a chain that is not indexed", sample, "--chain 10", /Chain 10 is not indexed here. Indexed chains: 1, 137/],
    [
      "a block that is not indexed yet",
      sample,
      "--chain 1 --block 9999",
      /Block 9999 of chain 1 is not indexed yet: the newest indexed block is \d+/,
    ],
    [
      "an index that is catching up",
      catchingUp,
      "--chain 1",
      /Chain 1 is still being indexed: its index has reached block \d+ of \d+/,
    ],
    ["a database without an index", createDatabase, "--chain 1", /no schema "analytics"/],
    [
      "bad arguments, all of which it names",
      sample,
      "--what all --chain x --block 1.5",
      /--what must be changes or state\.\n.*--chain must be a whole number.*\n.*--block must be a whole number/,
    ],
    ["an unknown argument", sample, "--chain 1 --table x", /--table/],
  ] as const)("%s", async ([, findUrl, args, reason]) => {
    const folder = await createFolder();
    const out = join(folder, "rows.csv");
    await writeFile(out, "before");
    const { code, output } = await runExport(await findUrl(), "--format", "csv", "--out", out, ...args.split(" "));
    expect(code).toBe(1);
    expect(output).toMatch(reason);
    expect(output).not.toMatch(/at .*\.ts:/);
    expect(await readdir(folder)).toEqual(["rows.csv"]);
    expect(await readFile(out, "utf8")).toBe("before");
  });
});
