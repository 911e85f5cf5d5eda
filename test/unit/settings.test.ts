import { describe, expect, test } from "vitest";
import { parseApiSettings } from "../../api/settings.ts";
import { isInNetworks } from "../../api/webhooks/receiver-address.ts";
import { parseIndexerSettings } from "../../indexer/settings.ts";
import { parseAll, parseDatabaseUrl, parseOptionalDatabaseUrl, SettingsError } from "../../process/settings.ts";

const RPC = { PONDER_RPC_URL_1: "https://rpc.example/key" };
const POLYGON = { PONDER_RPC_URL_137: "http://127.0.0.1:8545" };

/** Returns the problems of settings. */
const listProblems = (parse: () => unknown): readonly string[] => {
  try {
    parse();
  } catch (error) {
    if (error instanceof SettingsError) return error.problems;
    throw error;
  }
  return [];
};
const indexerProblems = (environment: NodeJS.ProcessEnv) => listProblems(() => parseIndexerSettings(environment));
const apiProblems = (environment: NodeJS.ProcessEnv) => listProblems(() => parseApiSettings(environment));

describe("parseIndexerSettings()", () => {
  test("indexes every chain that has an RPC, with defaults for the rest", () => {
    const settings = parseIndexerSettings({ ...RPC, ...POLYGON });
    const { chains, ...rest } = settings;
    expect(rest).toMatchObject({
      shard: "registry",
      pollingIntervalMs: 1000,
      host: "127.0.0.1",
      port: 42069,
      logLevel: "info",
    });
    expect(chains.map(({ network, startBlock, wsUrl }) => [network.name, startBlock, wsUrl])).toEqual([
      ["Ethereum", null, null],
      ["Polygon", null, null],
    ]);
  });

  test("accepts several URLs of a chain, with or without spaces", () => {
    const { chains } = parseIndexerSettings({
      PONDER_RPC_URL_1: "https://a.example, wss://b.example ,http://c.example",
    });
    expect(chains[0]?.rpcUrls).toEqual(["https://a.example", "wss://b.example", "http://c.example"]);
  });

  test("omits chains that CHAINS does not list", () => {
    const { chains } = parseIndexerSettings({ ...RPC, ...POLYGON, CHAINS: "137" });
    expect(chains.map(({ network }) => network.chainId)).toEqual([137]);
  });

  test("treats an empty variable as unset", () => {
    const settings = parseIndexerSettings({ ...RPC, CHAINS: " ", SHARD: "", PONDER_WS_URL_1: "", START_BLOCK_1: " " });
    expect(settings).toEqual(parseIndexerSettings(RPC));
  });

  test("reads start block, WebSocket URL, shard, interval and port", () => {
    const settings = parseIndexerSettings({
      ...RPC,
      START_BLOCK_1: "0",
      PONDER_WS_URL_1: "wss://ws.example",
      SHARD: "mainnets",
      POLLING_INTERVAL_MS: "250",
      INDEXER_PORT: "4000",
    });
    expect(settings).toMatchObject({ shard: "mainnets", pollingIntervalMs: 250, port: 4000 });
    expect(settings.chains[0]).toMatchObject({ startBlock: 0, wsUrl: "wss://ws.example" });
  });

  test("names every problem at once", () => {
    const problems = indexerProblems({
      PONDER_RPC_URL_1: "not a url",
      PONDER_RPC_URL_99999: "https://rpc.example",
      PONDER_RPC_URL_mainnet: "https://rpc.example",
      START_BLOCK_1: "-5",
      START_BLOCK_10: "7",
      CHAINS: "1,137,424242",
      SHARD: "No Good",
      POLLING_INTERVAL_MS: "fast",
      INDEXER_PORT: "0",
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
      "INDEXER_PORT must be",
      "LOG_LEVEL must be",
    ];
    for (const start of expected) expect(problems).toContainEqual(expect.stringContaining(start));
    expect(problems).toHaveLength(expected.length);
  });

  test("names the setting to add when there is no chain", () => {
    expect(indexerProblems({})).toEqual([expect.stringContaining("PONDER_RPC_URL_1=https://…")]);
  });

  test("shows no URL in problems, as it may contain a key", () => {
    const problems = indexerProblems({
      PONDER_RPC_URL_1: "https://good.example/v2/s3cret,htp:/bad.example/s3cret",
      PONDER_WS_URL_1: "http://ws.example/s3cret",
    });
    expect(problems).toHaveLength(2);
    expect(problems.join()).not.toContain("s3cret");
  });

  test.for([
    ["SHARD", "public", "ponder_sync", "pg_x", "service", "analytics", "indexer", "registry_0123456789", "1st", "a-b"],
    ["START_BLOCK_1", "1.5", "0x10", "1e3", "-1", "9".repeat(30)],
  ] as const)("refuses a bad %s", ([name, ...values]) => {
    for (const value of values) {
      expect(indexerProblems({ ...RPC, [name]: value }), value).toEqual([
        expect.stringMatching(new RegExp(`^${name} `)),
      ]);
    }
  });
});

describe("parseApiSettings()", () => {
  test("has working defaults", () => {
    expect(parseApiSettings({ INDEX_SCHEMAS: "" })).toEqual({
      databaseReadUrl: null,
      shards: ["registry"],
      host: "0.0.0.0",
      port: 8080,
      maxIndexLagSeconds: 600,
      quietChains: new Set([1996, 2911]),
      limit: { requests: 25, windowMs: 10_000 },
      limitStoreUrl: null,
      trustedProxies: null,
      publicUrl: null,
      hasDeveloperPage: true,
      keysPerWallet: 5,
      webhooks: null,
      signInRpcUrls: new Map(),
      proofRpcUrls: new Map(),
      metricsHost: "127.0.0.1",
      metricsPort: 9464,
      logLevel: "info",
    });
  });

  test("names every problem at once, and shows no secret", () => {
    const environment = {
      DATABASE_READ_URL: "mysql://:s3cret@replica.example",
      INDEX_SCHEMAS: "Registry;drop",
      PORT: "0",
      MAX_INDEX_LAG_SECONDS: "soon",
      QUIET_CHAINS: "all",
      LOG_LEVEL: "loud",
      RATE_LIMIT_REQUESTS: "0",
      RATE_LIMIT_WINDOW_SECONDS: "1.5",
      RATE_LIMIT_STORE: "http://:s3cret@cache.example",
      TRUST_PROXY: "10.0.0.0/8, proxy.example",
      PUBLIC_URL: "https://api.example/s3cret",
      DEVELOPER_PORTAL: "yes",
      DEVELOPER_KEYS_PER_WALLET: "0",
      WEBHOOKS: "yes",
      WEBHOOK_ALLOWED_NETWORKS: "private",
      PONDER_RPC_URL_1: "htp:/rpc.example/s3cret",
      METRICS_PORT: "99999",
    };
    const problems = apiProblems(environment);
    for (const name of Object.keys(environment)) {
      expect(problems).toContainEqual(expect.stringMatching(new RegExp(`^${name}\\b`)));
    }
    expect(problems.join()).not.toContain("s3cret");
  });

  test("adds QUIET_CHAINS to the quiet networks, and refuses a chain without a registry", () => {
    expect(parseApiSettings({ QUIET_CHAINS: "660279, 2911" }).quietChains).toEqual(new Set([1996, 2911, 660279]));
    expect(apiProblems({ QUIET_CHAINS: "660279,4" })).toEqual([expect.stringContaining("QUIET_CHAINS names")]);
  });

  test("accepts several shards, with or without spaces, each once", () => {
    expect(parseApiSettings({ INDEX_SCHEMAS: "mainnet, rollups,mainnet" }).shards).toEqual(["mainnet", "rollups"]);
  });

  test("reads RPCs for sign-ins from their own variables, else from the indexer's, regardless of CHAINS", () => {
    const environment = {
      PONDER_RPC_URL_1: "https://a.example, https://b.example",
      PONDER_RPC_URL_10: "",
      PONDER_RPC_URL_137: "https://a.example",
      SIGN_IN_RPC_URL_137: "https://sign-in.example",
      SIGN_IN_RPC_URL_8453: "https://sign-in.example",
      CHAINS: "137",
    };
    expect(parseApiSettings(environment).signInRpcUrls).toEqual(
      new Map([
        [1, ["https://a.example", "https://b.example"]],
        [137, ["https://sign-in.example"]],
        [8453, ["https://sign-in.example"]],
      ]),
    );
  });

  test("reads RPCs for proofs from their own variables only", () => {
    const environment = {
      PONDER_RPC_URL_1: "https://a.example",
      PROOF_RPC_URL_137: "https://b.example,https://c.example",
    };
    const { proofRpcUrls, signInRpcUrls } = parseApiSettings(environment);
    expect(proofRpcUrls).toEqual(new Map([[137, ["https://b.example", "https://c.example"]]]));
    expect(signInRpcUrls).toEqual(new Map([[1, ["https://a.example"]]]));
    expect(apiProblems({ PROOF_RPC_URL_1: "wss://a.example/s3cret", PROOF_RPC_URL_base: "https://a.example" })).toEqual(
      [
        "PROOF_RPC_URL_1 must be one or more URLs separated by commas, each http or https.",
        "PROOF_RPC_URL_base must end in a chain id.",
      ],
    );
  });

  test("uses no WebSocket for sign-ins", () => {
    const environment = { PONDER_RPC_URL_1: "wss://a.example", PONDER_RPC_URL_10: "wss://a.example,https://b.example" };
    expect(parseApiSettings(environment).signInRpcUrls).toEqual(new Map([[10, ["https://b.example"]]]));
    expect(
      apiProblems({ SIGN_IN_RPC_URL_1: "wss://a.example/s3cret", SIGN_IN_RPC_URL_base: "https://a.example" }),
    ).toEqual([
      "SIGN_IN_RPC_URL_1 must be one or more URLs separated by commas, each http or https.",
      "SIGN_IN_RPC_URL_base must end in a chain id.",
    ]);
  });

  test("accepts a replica of the database, and refuses one without a database", () => {
    const DATABASE_READ_URL = "postgres://reader:secret@replica.example/delegations";
    const DATABASE_URL = "postgres://api:secret@db.example/delegations";
    expect(parseApiSettings({ DATABASE_URL, DATABASE_READ_URL }).databaseReadUrl).toBe(DATABASE_READ_URL);
    expect(parseApiSettings({ DATABASE_URL }).databaseReadUrl).toBeNull();
    expect(apiProblems({ DATABASE_READ_URL })).toEqual([
      expect.stringContaining("DATABASE_READ_URL needs DATABASE_URL"),
    ]);
  });

  test("lets webhooks reach no network that is not public, except those of WEBHOOK_ALLOWED_NETWORKS", () => {
    expect(parseApiSettings({ WEBHOOKS: "on" }).webhooks).toEqual({ allowedNetworks: null });
    const { webhooks } = parseApiSettings({ WEBHOOKS: "on", WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8, fd00::/8" });
    const reached = ["127.0.0.1", "fd00::1", "10.0.0.1"].map((each) =>
      isInNetworks(each, webhooks?.allowedNetworks ?? null),
    );
    expect(reached).toEqual([true, true, false]);
    expect(parseApiSettings({ WEBHOOKS: "off", WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" }).webhooks).toBeNull();
  });

  test("accepts PUBLIC_URL, RATE_LIMIT_STORE and TRUST_PROXY in all their forms", () => {
    for (const url of [
      "https://api.example",
      "https://api.example/",
      "http://127.0.0.1:8080",
      "http://localhost:3000",
      "http://10.1.2.3",
      "http://172.31.0.1:8080",
      "http://192.168.0.1",
      "http://registry.internal:8080",
    ])
      expect(parseApiSettings({ PUBLIC_URL: url }).publicUrl).toBe(new URL(url).origin);
    for (const url of ["redis://127.0.0.1:6379", "rediss://user:secret@cache.example:6380/2"])
      expect(parseApiSettings({ RATE_LIMIT_STORE: url }).limitStoreUrl).toBe(url);
    for (const list of ["10.0.0.0/8", "192.0.2.7", "127.0.0.1, ::1,fd00::/8"])
      expect(parseApiSettings({ TRUST_PROXY: list }).trustedProxies, list).not.toBeNull();
    for (const off of ["off", ""]) expect(parseApiSettings({ TRUST_PROXY: off }).trustedProxies).toBeNull();
  });

  test.for([
    [
      "PUBLIC_URL",
      /^PUBLIC_URL must be the address/,
      "api.example",
      "ftp://api.example",
      "https://api.example/path",
      "https://api.example/?a",
      "https://user@api.example",
      // Wallets refuse to sign in to these two.
      "http://api:8080",
      "http://[::1]:8080",
    ],
    [
      "PUBLIC_URL",
      /^PUBLIC_URL must begin with https:\/\/ for a public host: over http, anyone on the way could read/,
      "http://api.example",
      "http://api.example:8080",
      "http://203.0.113.7",
      "http://172.32.0.1",
      "http://127.0.0.1.api.example",
      "http://localhost.api.example",
      "http://mylocalhost.example",
    ],
    [
      "MAX_INDEX_LAG_SECONDS",
      /^MAX_INDEX_LAG_SECONDS must be a whole number from 1 to/,
      ...["0", "-1", "1.5", "0x10", "1e3", "9".repeat(30)],
    ],
    [
      "RATE_LIMIT_STORE",
      /^RATE_LIMIT_STORE must be memory, or/,
      "redis://host/abc",
      "redis:host",
      "redis://:a%zz@host",
      "redis://:%ff@host",
      "valkey://host",
      "disk",
    ],
    [
      "TRUST_PROXY",
      /^TRUST_PROXY must be off, or the networks/,
      // A trusted proxy may claim any address: trusting all addresses would disable the limit.
      ...["0.0.0.0/0", "0.0.0.0/1", "::/0", "::/8", "::/64", "::fffe:0:0/95", "::ffff:10.0.0.0/104"],
      ...["true", "10.0.0.0/33", "10.0.0.0/", "10.0.0.1,,", "10.0.0.256"],
    ],
    ["WEBHOOKS", /^WEBHOOKS must be on or off/, "yes", "On", "true"],
    [
      "WEBHOOK_ALLOWED_NETWORKS",
      /^WEBHOOK_ALLOWED_NETWORKS must be networks that webhooks may reach although they are not public/,
      ...["off", "localhost", "0.0.0.0/0", "::/0", "127.0.0.0/33", "127.0.0.1,,"],
    ],
  ] as const)("refuses a bad %s", ([name, problem, ...values]) => {
    for (const value of values) expect(apiProblems({ [name]: value }), value).toEqual([expect.stringMatching(problem)]);
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

  test("explains how to get a database when one is required", () => {
    expect(() => parseDatabaseUrl({})).toThrow(/DATABASE_URL is not set: .*npm start/);
    expect(parseOptionalDatabaseUrl({})).toBeNull();
  });
});
