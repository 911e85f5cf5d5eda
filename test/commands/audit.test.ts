import { execFile } from "node:child_process";
import type pg from "pg";
import { toFunctionSelector } from "viem";
import { describe, expect, onTestFinished } from "vitest";
import { auditCommand } from "../../commands/audit/audit-command.ts";
import { encodeV2 } from "../../local/calls.ts";
import { compileContracts } from "../../local/compile-contracts.ts";
import { sendSamples } from "../../local/samples.ts";
import { findFreePort } from "../../process/ports.ts";
import { networks } from "../../registry/networks.ts";
import { AIRDROP, COIN, GONE, GUEST, HOT, NFT, SAFE, VAULT } from "../support/api.ts";
import { readNewestBlock } from "../support/indexed-chain.ts";
import { launchIndexer } from "../support/indexer.ts";
import { launchRpcProxy } from "../support/rpc-proxy.ts";
import { ROOT } from "../support/run.ts";
import { createDatabase, launchChain, waitUntilAnalytics, waitUntilIndexed } from "../support/setup.ts";
import { test as base } from "../support/test.ts";

type Outcome = { code: number; stdout: string; stderr: string };

const test = base
  .extend("databaseUrl", () => createDatabase())
  /** A chain with delegations of every kind, revoked in every way, and one between two wallets that have no other. */
  .extend("chain", { scope: "file" }, async ({}, { onCleanup }) => {
    const chain = await launchChain(1);
    onCleanup(() => chain.stop());
    await sendSamples(chain, await compileContracts());
    const [account, to] = chain.accounts.slice(10);
    const v2 = networks.get(1)?.v2?.address;
    if (!account || !to || !v2) throw new Error("The chain lacks accounts, or the v2 registry.");
    const data = encodeV2("delegateAll", [to, AIRDROP, true]);
    await chain.client.sendTransaction({ account, chain: null, to: v2, data, gas: 2_000_000n });
    await chain.client.mine({ blocks: 1 });
    return { ...chain, head: await chain.client.getBlockNumber(), strangers: { from: account, to } };
  })
  /** A connection to the chain's index, whose indexer has stopped. */
  .extend("index", { scope: "file" }, async ({ chain, databaseUrl, database }) => {
    // Disables Ponder's triggers, which would refuse the tests' changes.
    await database.query("set session_replication_role = replica");
    const indexer = await launchIndexer({ databaseUrl, chains: [chain] });
    await waitUntilIndexed(database, chain);
    await waitUntilAnalytics(database);
    await indexer.stop();
    return database;
  })
  .extend("settings", { scope: "file" }, ({ chain, index: _, databaseUrl }) => ({
    DATABASE_URL: databaseUrl,
    PONDER_RPC_URL_1: chain.url,
  }))
  /** Runs the audit in this process, without pauses before retries. */
  .extend(
    "audit",
    { scope: "file" },
    ({ settings }) =>
      async (args: string, env?: NodeJS.ProcessEnv): Promise<Outcome> => {
        const [stdout, stderr]: [string[], string[]] = [[], []];
        const code = await auditCommand(args.split(" "), {
          environment: { ...settings, ...env },
          print: (text) => stdout.push(`${text}\n`),
          say: (text) => stderr.push(`${text}\n`),
          signal: new AbortController().signal,
          wait: async () => {},
        });
        expect(stderr.join("")).not.toMatch(/^\s+at /m);
        return { code, stdout: stdout.join(""), stderr: stderr.join("") };
      },
  )
  /** Runs the audit over an RPC that answers some requests in its own way. */
  .extend(
    "auditOver",
    { scope: "file" },
    ({ audit, chain }) =>
      async (intercept: Intercept, args = "--chain 1 --all") => {
        const proxy = await launchRpcProxy(chain.url);
        proxy.intercept = intercept;
        const outcome = await audit(args, { PONDER_RPC_URL_1: proxy.url }).finally(proxy.stop);
        return { ...outcome, seen: proxy.seen };
      },
  );

type Intercept = Awaited<ReturnType<typeof launchRpcProxy>>["intercept"];

/** Changes one row of the index per statement, and restores all rows after the test. */
const tamper = async (index: pg.Client, statements: readonly string[]): Promise<void> => {
  const tables = ["delegation_v1", "delegation_v2", "delegation_change"];
  for (const table of tables) await index.query(`create temp table ${table}_kept as table registry.${table}`);
  onTestFinished(async () => {
    for (const table of tables) {
      await index.query(`delete from registry.${table}`);
      await index.query(`insert into registry.${table} select * from ${table}_kept`);
      await index.query(`drop table ${table}_kept`);
    }
  });
  for (const statement of statements) expect((await index.query(statement)).rowCount, statement).toBe(1);
};

const lower = (text: string) => text.toLowerCase();

describe("audit of a correct index", () => {
  test.for(["--all", "--sample 4", "--sample 1000"])("agrees with the chain, %s", async (args, { audit, chain }) => {
    const { code, stdout, stderr } = await audit(`--chain 1 ${args}`);
    expect([code, stderr]).toEqual([0, expect.stringContaining("Database ")]);
    const [, block, ...counts] =
      /^Chain 1 \(Ethereum\) at block (\d+): (\d+) wallets, (\d+) delegations and (\d+) checks compared, the index agrees with the chain\.\n$/.exec(
        stdout,
      ) ?? [];
    expect(block).toBe(String(chain.head));
    const [wallets, delegations, checks] = counts.map(Number);
    expect(wallets).toBe(args === "--sample 4" ? 4 : 10);
    if (wallets === 10) expect(delegations).toBe(15);
    expect(checks).toBeGreaterThan(wallets === 10 ? 10 : 3);
  });

  test("agrees at past blocks, before and after v1 revocations whose event does not name the delegate", async ({
    audit,
    chain: { head },
  }) => {
    for (const block of [0n, head - 2n, head - 1n]) {
      const { code, stdout, stderr } = await audit(`--chain 1 --all --block ${block}`);
      expect([code, stderr]).toEqual([0, expect.anything()]);
      expect(stdout).toContain(`at block ${block}: `);
    }
  });
});

describe("audit of a wrong index", () => {
  const FULL = `rights 0x${"0".repeat(64)}`;
  const ADDED = "the index says delegated, the chain says not delegated";
  const MISSING = "the index says not delegated, the chain says delegated";
  const BETWEEN = `vault = '${lower(VAULT)}' and delegate = '${lower(HOT)}'`;
  const expectDifferences = ({ code, stdout }: Outcome, head: bigint, lines: readonly string[]) => {
    const expected = lines.map((line) => lower(`${line}, at block ${head}.`));
    const printed = stdout.trimEnd().split("\n");
    expect([code, printed.pop()]).toEqual([
      1,
      expect.stringMatching(new RegExp(`compared, ${lines.length} differences\\.$`)),
    ]);
    expect(printed.map(lower).toSorted()).toEqual(expected.toSorted());
  };
  /** A row like another, but for its delegate. */
  const copyRow = (table: string, delegate: string, where: string) =>
    `insert into registry.${table} select (jsonb_populate_record(row, '{"delegate":"${lower(delegate)}"}')).*
     from registry.${table} row where ${where}`;

  test("ends with code 1 and exactly the wrong rows", async ({ audit, index, chain: { head, strangers } }) => {
    const { from, to } = strangers;
    const faults = {
      [copyRow("delegation_v2", GONE, `${BETWEEN} and type = 'ALL'`)]:
        `v2 ALL vault ${VAULT} delegate ${GONE} ${FULL}: ${ADDED}`,
      [`delete from registry.delegation_v2 where ${BETWEEN}`]: `v2 ALL vault ${VAULT} delegate ${HOT} ${FULL}: ${MISSING}`,
      // Wallets without other rows.
      [`delete from registry.delegation_v2 where vault = '${lower(from)}'`]: `v2 ALL vault ${from} delegate ${to} rights ${AIRDROP}: ${MISSING}`,
      [`update registry.delegation_v2 set amount = 250001 where delegate = '${lower(GUEST)}' and type = 'ERC20'`]: `v2 ERC20 vault ${VAULT} delegate ${GUEST} contract ${COIN} ${FULL}: the index says amount 250001, the chain says amount 250000`,
      [`delete from registry.delegation_v1 where ${BETWEEN}`]: `v1 ALL vault ${VAULT} delegate ${HOT}: ${MISSING}`,
      // An indexer that trusts the event of a contract wallet's revocation keeps this row.
      [copyRow("delegation_v1", GONE, `vault = '${lower(SAFE)}'`)]: `v1 ALL vault ${SAFE} delegate ${GONE}: ${ADDED}`,
    };
    await tamper(index, Object.keys(faults));
    expectDifferences(await audit("--chain 1 --all"), head, Object.values(faults));
    expectDifferences(await audit("--chain 1 --sample 100"), head, Object.values(faults));
  });

  test("finds a revocation that is missing in the log, at a past block", async ({ audit, index, chain: { head } }) => {
    await tamper(index, [
      `delete from registry.delegation_change
       where registry = 'v2' and delegate = '${lower(GONE)}' and type = 'ERC1155' and not active`,
    ]);
    expect((await audit("--chain 1 --all")).stdout).not.toContain("ERC1155");
    expectDifferences(await audit(`--chain 1 --all --block ${head}`), head, [
      `v2 ERC1155 vault ${VAULT} delegate ${GONE} contract ${NFT} token 7 ${FULL}: the index says amount 3, the chain says not delegated`,
    ]);
  });

  test("ends npm run audit with code 1 and the difference on standard output", async ({ index, settings, chain }) => {
    await tamper(index, [`delete from registry.delegation_v1 where ${BETWEEN}`]);
    const options = { cwd: ROOT, env: { PATH: process.env.PATH, HOME: process.env.HOME, ...settings } };
    const words = ["--import", "tsx", "commands/audit/main.ts", "--chain", "1", "--all"];
    const outcome = await new Promise<Outcome>((resolve) => {
      execFile(process.execPath, words, options, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      );
    });
    expectDifferences(outcome, chain.head, [`v1 ALL vault ${VAULT} delegate ${HOT}: ${MISSING}`]);
    expect(outcome.stderr).toContain("Database ");
  });
});

// Concurrent, as most of their time is spent in pauses before retries.
describe.concurrent("audit over an RPC", () => {
  const refuse = (code: number, message: string) => ({ error: { code, message } });

  test("on another fork ends with code 1", async ({ auditOver, chain }) => {
    const other = `0x${"ab".repeat(32)}`;
    const result = { ...(await readNewestBlock(chain.url)), hash: other };
    const { code, stdout } = await auditOver(({ method }) =>
      method === "eth_getBlockByNumber" ? { result } : undefined,
    );
    expect(code).toBe(1);
    expect(stdout).toContain(`the chain says ${other}. They are on different forks`);
  });

  test("with a limit of 16 blocks per request requests fewer blocks", async ({ auditOver, chain: { head } }) => {
    const { code, stderr, seen } = await auditOver(({ method, params }) => {
      if (method !== "eth_getLogs") return undefined;
      const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
      const isTooMuch = Number(toBlock) - Number(fromBlock) >= 16;
      return isTooMuch ? refuse(-32_005, "query exceeds max block range 16") : undefined;
    });
    expect(code, stderr).toBe(0);
    expect(seen.filter(({ method }) => method === "eth_getLogs").length).toBeGreaterThan(Number(head) / 16);
  });

  test("with a rate limit retries", async ({ auditOver }) => {
    let requests = 0;
    const { code, stderr } = await auditOver(() => (++requests % 7 === 0 ? { status: 429 } : undefined));
    expect(code, stderr).toBe(0);
  });

  test("without reads by block hash reads by number, then verifies the block's hash", async ({ auditOver }) => {
    const { code, stderr, seen } = await auditOver(({ method, params }) =>
      method === "eth_call" && typeof params[1] === "object"
        ? refuse(-32_602, "invalid argument 1: hex string expected")
        : undefined,
    );
    expect(code, stderr).toBe(0);
    expect(seen.at(-1)?.method).toBe("eth_getBlockByNumber");
  });

  test("starts over after a reorg", async ({ auditOver }) => {
    let asked = 0;
    // More often than the transport retries a missing block.
    const { code, stderr } = await auditOver(({ method }) =>
      method === "eth_getBlockByNumber" && ++asked <= 4 ? { result: null } : undefined,
    );
    expect([code, stderr]).toEqual([0, expect.stringContaining("Starting over")]);
  });

  const INCOMING_V2 = toFunctionSelector("getIncomingDelegations(address)");
  const refuseIncoming: Intercept = ({ method, params }) => {
    if (method !== "eth_call") return undefined;
    const { data } = params[0] as { data: string };
    const isRefused = data.includes(lower(HOT).slice(2)) && data.startsWith(INCOMING_V2);
    return isRefused ? refuse(-32_000, "out of gas") : undefined;
  };

  test("without a wallet's incoming list compares the vaults' lists with --all", async ({ auditOver }) => {
    const { code, stderr } = await auditOver(refuseIncoming);
    expect(code, stderr).toBe(0);
  });

  test.for<[string, Intercept, string, string | RegExp]>([
    [
      "without a wallet's incoming list, for a sample",
      refuseIncoming,
      "--chain 1 --sample 100",
      `The incoming v2 delegations of ${lower(HOT)} cannot be read: out of gas`,
    ],
    [
      "without the state of the block, and asks for an archive node",
      ({ method }) => (method === "eth_call" ? refuse(-32_000, "missing trie node") : undefined),
      "--chain 1 --block 5",
      /The RPC does not have the state of block 5\. Set PONDER_RPC_URL_<chainId> to an archive node.*missing trie node/s,
    ],
    [
      "on another chain",
      ({ method }) => (method === "eth_chainId" ? { result: "0x89" } : undefined),
      "--chain 1 --all",
      "is on chain 137, not on chain 1",
    ],
  ])("ends with code 2 %s", async ([, intercept, args, reason], { auditOver }) => {
    const { code, stdout, stderr } = await auditOver(intercept, args);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(reason);
  });

  test("ends with code 2 when it is unreachable, and does not show the URL's secrets", async ({ audit }) => {
    const away = `http://somebody:hunter2@127.0.0.1:${await findFreePort()}/hunter2`;
    const { code, stdout, stderr } = await audit("--chain 1", { PONDER_RPC_URL_1: away });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("The RPC cannot be read");
    expect(stderr).not.toContain("hunter2");
  });
});

describe("audit ends with code 2 and the reason", () => {
  const expectUnknown = ({ code, stdout, stderr }: Outcome, reason: string) => {
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(reason);
  };

  const BAD = { PONDER_RPC_URL_1: "ftp://x", DATABASE_URL: "mysql://x" };
  const POLYGON = { PONDER_RPC_URL_137: "http://127.0.0.1:1" };
  test.for<[string, string, NodeJS.ProcessEnv?]>([
    ["--chain 137", "Chain 137 is not indexed in this database", POLYGON],
    // All bad settings at once.
    ["--chain 1 --sample many --block -", "--sample must be", BAD],
    ["--chain 1 --sample many --block -", "--block must be", BAD],
    ["--chain 1 --sample many --block -", "PONDER_RPC_URL_1 must be", BAD],
    ["--chain 1 --sample many --block -", "DATABASE_URL must be", BAD],
    ["--chain 1 --all --sample 5", "cannot be combined"],
    ["--chain 137", "PONDER_RPC_URL_137 is not set"],
    ["--chain 4", "known chain ids are 1, "],
    ["--everything", "npm run audit -- --chain <chainId>"],
  ])("%s: %s", async ([args, reason, env], { audit }) => {
    expectUnknown(await audit(args, env), reason);
  });

  test("when nothing is indexed", async ({ audit }) => {
    const outcome = await audit("--chain 1", { DATABASE_URL: await createDatabase() });
    expectUnknown(outcome, "Chain 1 is not indexed in this database");
  });

  test("when the block is not indexed yet", async ({ audit, chain: { head } }) => {
    expectUnknown(await audit(`--chain 1 --block ${head + 1n}`), `Block ${head + 1n} is not indexed yet`);
  });

  test("when the index is catching up", async ({ audit, index }) => {
    await index.query("update indexer.shard set caught_up = false");
    onTestFinished(() => index.query("update indexer.shard set caught_up = true").then(() => {}));
    expectUnknown(await audit("--chain 1"), "Chain 1 is still being indexed: its index has reached block");
  });
});
