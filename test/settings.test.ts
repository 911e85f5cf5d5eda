import { describe, expect, test } from "vitest";
import { parseApiSettings } from "../api/settings.ts";
import { parseIndexerSettings } from "../indexer/settings.ts";
import { parseAll, parseDatabaseUrl, parseOptionalDatabaseUrl, SettingsError } from "../stack/settings.ts";

const RPC = { PONDER_RPC_URL_1: "https://rpc.example/key" };

const problemsOf = (environment: NodeJS.ProcessEnv): readonly string[] => {
  try {
    parseIndexerSettings(environment);
  } catch (error) {
    if (error instanceof SettingsError) return error.problems;
    throw error;
  }
  return [];
};

describe("parseIndexerSettings() with usable settings", () => {
  test("indexes every chain that has an RPC, with working defaults for the rest", () => {
    const settings = parseIndexerSettings({ ...RPC, PONDER_RPC_URL_137: "http://127.0.0.1:8545" });
    expect(settings).toMatchObject({
      shard: "registry",
      pollingIntervalMs: 1000,
      host: "127.0.0.1",
      port: 42069,
      logLevel: "info",
    });
    expect(settings.chains.map(({ network }) => network.name)).toEqual(["Ethereum", "Polygon"]);
    expect(settings.chains.map(({ startBlock, wsUrl }) => [startBlock, wsUrl])).toEqual([
      [null, null],
      [null, null],
    ]);
  });

  test("takes several URLs of a chain, with or without spaces", () => {
    const { chains } = parseIndexerSettings({
      PONDER_RPC_URL_1: "https://a.example, wss://b.example ,http://c.example",
    });
    expect(chains[0]?.rpcUrls).toEqual(["https://a.example", "wss://b.example", "http://c.example"]);
  });

  test("leaves out chains that CHAINS does not name", () => {
    const { chains } = parseIndexerSettings({ ...RPC, PONDER_RPC_URL_137: "http://127.0.0.1:8545", CHAINS: "137" });
    expect(chains.map(({ network }) => network.chainId)).toEqual([137]);
  });

  test("takes an empty variable for one that is not set", () => {
    const settings = parseIndexerSettings({ ...RPC, CHAINS: " ", SHARD: "", PONDER_WS_URL_1: "" });
    expect(settings).toMatchObject({ shard: "registry" });
  });

  test("takes start block, WebSocket, shard, interval and port as set", () => {
    const settings = parseIndexerSettings({
      ...RPC,
      START_BLOCK_1: "0",
      PONDER_WS_URL_1: "wss://ws.example",
      SHARD: "mainnets",
      POLLING_INTERVAL_MS: "250",
      INDEXER_PORT: "4000",
    });
    expect(settings).toMatchObject({
      shard: "mainnets",
      pollingIntervalMs: 250,
      port: 4000,
    });
    expect(settings.chains[0]).toMatchObject({ startBlock: 0, wsUrl: "wss://ws.example" });
  });
});

describe("parseIndexerSettings() with unusable settings", () => {
  test("names every problem at once", () => {
    const problems = problemsOf({
      PONDER_RPC_URL_1: "not a url",
      PONDER_RPC_URL_99999: "https://rpc.example",
      PONDER_RPC_URL_mainnet: "https://rpc.example",
      START_BLOCK_1: "-5",
      START_BLOCK_10: "7",
      CHAINS: "1,137,424242",
      SHARD: "No Good",
      POLLING_INTERVAL_MS: "fast",
      LOG_LEVEL: "loud",
    });
    const expected = [
      "PONDER_RPC_URL_1 must be",
      'PONDER_RPC_URL_99999: there is no registry on a chain "99999"',
      'PONDER_RPC_URL_mainnet: there is no registry on a chain "mainnet"',
      "START_BLOCK_1 must be",
      "START_BLOCK_10 is set, but chain 10 has no RPC",
      "CHAINS names chain 137, which has no RPC: set PONDER_RPC_URL_137",
      'CHAINS: there is no registry on a chain "424242"',
      "SHARD must be",
      "POLLING_INTERVAL_MS must be",
      "LOG_LEVEL must be",
    ];
    for (const start of expected) {
      expect(problems).toContainEqual(expect.stringContaining(start));
    }
    expect(problems).toHaveLength(expected.length);
  });

  test("says what to set when there is no chain at all", () => {
    expect(problemsOf({})).toEqual([expect.stringContaining("PONDER_RPC_URL_1=https://…")]);
  });

  test("never repeats a URL, which may hold a key", () => {
    const text = problemsOf({
      PONDER_RPC_URL_1: "https://good.example/v2/s3cret,htp:/bad.example/s3cret",
      PONDER_WS_URL_1: "http://ws.example/s3cret",
    }).join();
    expect(text).not.toContain("s3cret");
  });

  test.each(["public", "ponder_sync", "pg_x", "service", "analytics", "indexer", "registry_0123456789", "1st", "a-b"])(
    "refuses %s as a shard's name",
    (name) => {
      expect(problemsOf({ ...RPC, SHARD: name })).toEqual([expect.stringMatching(/^SHARD /)]);
    },
  );

  test.each(["1.5", "0x10", "1e3", "-1", " ", "9".repeat(30)])(
    "refuses %s as a start block, or ignores blanks",
    (value) => {
      const problems = problemsOf({ ...RPC, START_BLOCK_1: value });
      expect(problems).toHaveLength(value.trim() === "" ? 0 : 1);
    },
  );
});

describe("parseApiSettings()", () => {
  test("has working defaults", () => {
    expect(parseApiSettings({ INDEX_SCHEMAS: "" })).toEqual({
      shards: ["registry"],
      host: "0.0.0.0",
      port: 8080,
      maxIndexLagSeconds: 600,
      logLevel: "info",
    });
  });

  test("takes several shards, with or without spaces, each once", () => {
    expect(parseApiSettings({ INDEX_SCHEMAS: "mainnet, rollups,mainnet" }).shards).toEqual(["mainnet", "rollups"]);
  });

  test("names every problem at once", () => {
    const environment = { INDEX_SCHEMAS: "Registry;drop", PORT: "0", MAX_INDEX_LAG_SECONDS: "soon", LOG_LEVEL: "loud" };
    const problems = ["INDEX_SCHEMAS", "PORT", "MAX_INDEX_LAG_SECONDS", "LOG_LEVEL"];
    expect(() => parseApiSettings(environment)).toThrow(SettingsError);
    for (const problem of problems) expect(() => parseApiSettings(environment)).toThrow(problem);
  });
});

describe("parseAll()", () => {
  test("collects the problems of all groups, each once", () => {
    const environment = { DATABASE_URL: "mysql://user:s3cret@db.example", LOG_LEVEL: "loud" };
    const parse = () =>
      parseAll(
        () => parseDatabaseUrl(environment),
        () => parseIndexerSettings({ ...environment, ...RPC }),
        () => parseApiSettings(environment),
      );
    expect(parse).toThrow(/^The settings cannot be used:\n {2}- DATABASE_URL must be.*\n {2}- LOG_LEVEL must be.*$/);
    expect(parse).not.toThrow("s3cret");
  });

  test("says how to get a database where one is needed", () => {
    expect(() => parseDatabaseUrl({})).toThrow(/DATABASE_URL is not set: .*npm start/);
    expect(parseOptionalDatabaseUrl({})).toBeNull();
  });
});
