import { execFile } from "node:child_process";
import pg from "pg";
import { toFunctionSelector } from "viem";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { auditCommand } from "../../commands/audit/audit-command.ts";
import { encodeV2 } from "../../local/calls.ts";
import type { LocalChain } from "../../local/chain.ts";
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

// A chain with delegations of every kind, revoked in every way, and its index, whose indexer has stopped.

const CHAIN_ID = 1;

let chain: LocalChain;
let databaseUrl: string;
let database: pg.Client;
let head: bigint;

beforeAll(async () => {
  chain = await launchChain(CHAIN_ID);
  await sendSamples(chain, await compileContracts());
  const { from, to, v2 } = strangers();
  const data = encodeV2("delegateAll", [to, AIRDROP, true]);
  await chain.client.sendTransaction({ account: from, chain: null, to: v2, data, gas: 2_000_000n });
  await chain.client.mine({ blocks: 1 });
  head = await chain.client.getBlockNumber();

  databaseUrl = await createDatabase();
  database = new pg.Client(databaseUrl);
  await database.connect();
  // Disables Ponder's triggers, which would refuse the tests' changes.
  await database.query("set session_replication_role = replica");
  const indexer = await launchIndexer({ databaseUrl, chains: [chain] });
  await waitUntilIndexed(database, chain);
  await waitUntilAnalytics(database);
  await indexer.stop();
});
afterAll(async () => {
  await database?.end();
  await chain?.stop();
});

/** Returns two wallets with one delegation between them and no others. */
const strangers = () => {
  const [from, to] = chain.accounts.slice(10);
  const v2 = networks.get(CHAIN_ID)?.v2?.address;
  if (!from || !to || !v2) throw new Error("The chain lacks accounts, or the v2 registry.");
  return { from, to, v2 };
};

type Outcome = { code: number; stdout: string; stderr: string };

const withSettings = (env: NodeJS.ProcessEnv = {}) => ({
  DATABASE_URL: databaseUrl,
  [`PONDER_RPC_URL_${CHAIN_ID}`]: chain.url,
  ...env,
});

/** Runs the audit in this process, without pauses before retries. */
const audit = async (args: string, env?: NodeJS.ProcessEnv): Promise<Outcome> => {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const code = await auditCommand(args.split(" "), {
    environment: withSettings(env),
    print: (text) => stdout.push(`${text}\n`),
    say: (text) => stderr.push(`${text}\n`),
    signal: new AbortController().signal,
    wait: async () => {},
  });
  expect(stderr.join("")).not.toMatch(/^\s+at /m);
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
};

/** Runs the audit from the command line. */
const auditProcess = (...args: string[]) =>
  new Promise<Outcome>((resolve) => {
    const options = { cwd: ROOT, env: { PATH: process.env.PATH, HOME: process.env.HOME, ...withSettings() } };
    const words = ["--import", "tsx", "commands/audit/main.ts", ...args];
    execFile(process.execPath, words, options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });

/** Changes one row of the index per statement, and restores all rows after the test. */
const tamper = async (statements: readonly string[]): Promise<void> => {
  const tables = ["delegation_v1", "delegation_v2", "delegation_change"];
  for (const table of tables) await database.query(`create temp table ${table}_kept as table registry.${table}`);
  onTestFinished(async () => {
    for (const table of tables) {
      await database.query(`delete from registry.${table}`);
      await database.query(`insert into registry.${table} select * from ${table}_kept`);
      await database.query(`drop table ${table}_kept`);
    }
  });
  for (const statement of statements) expect((await database.query(statement)).rowCount, statement).toBe(1);
};

const lower = (text: string) => text.toLowerCase();

describe("audit of a correct index", () => {
  test.for(["--all", "--sample 4", "--sample 1000"])("agrees with the chain, %s", async (args) => {
    const { code, stdout, stderr } = await audit(`--chain 1 ${args}`);
    expect([code, stderr]).toEqual([0, expect.stringContaining("Database ")]);
    const [, block, ...counts] =
      /^Chain 1 \(Ethereum\) at block (\d+): (\d+) wallets, (\d+) delegations and (\d+) checks compared, the index agrees with the chain\.\n$/.exec(
        stdout,
      ) ?? [];
    expect(block).toBe(String(head));
    const [wallets, delegations, checks] = counts.map(Number);
    expect(wallets).toBe(args === "--sample 4" ? 4 : 10);
    if (wallets === 10) expect(delegations).toBe(15);
    expect(checks).toBeGreaterThan(wallets === 10 ? 10 : 3);
  });

  test("agrees at past blocks, before and after v1 revocations whose event does not name the delegate", async () => {
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
  const expectDifferences = ({ code, stdout }: Outcome, lines: readonly string[]) => {
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

  test("ends with code 1 and exactly the wrong rows", async () => {
    const { from, to } = strangers();
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
    await tamper(Object.keys(faults));
    expectDifferences(await audit("--chain 1 --all"), Object.values(faults));
    expectDifferences(await audit("--chain 1 --sample 100"), Object.values(faults));
  });

  test("finds a revocation that is missing in the log, at a past block", async () => {
    await tamper([
      `delete from registry.delegation_change
       where registry = 'v2' and delegate = '${lower(GONE)}' and type = 'ERC1155' and not active`,
    ]);
    expect((await audit("--chain 1 --all")).stdout).not.toContain("ERC1155");
    expectDifferences(await audit(`--chain 1 --all --block ${head}`), [
      `v2 ERC1155 vault ${VAULT} delegate ${GONE} contract ${NFT} token 7 ${FULL}: the index says amount 3, the chain says not delegated`,
    ]);
  });

  test("ends npm run audit with code 1 and the difference on standard output", async () => {
    await tamper([`delete from registry.delegation_v1 where ${BETWEEN}`]);
    const outcome = await auditProcess("--chain", "1", "--all");
    expectDifferences(outcome, [`v1 ALL vault ${VAULT} delegate ${HOT}: ${MISSING}`]);
    expect(outcome.stderr).toContain("Database ");
  });
});

// Concurrent, as most of their time is spent in pauses before retries.
describe.concurrent("audit over an RPC", () => {
  type Intercept = Awaited<ReturnType<typeof launchRpcProxy>>["intercept"];
  const auditOver = async (intercept: Intercept, args = "--chain 1 --all") => {
    const proxy = await launchRpcProxy(chain.url);
    proxy.intercept = intercept;
    const outcome = await audit(args, { PONDER_RPC_URL_1: proxy.url }).finally(proxy.stop);
    return { ...outcome, seen: proxy.seen };
  };
  const refuse = (code: number, message: string) => ({ error: { code, message } });
  const INCOMING_V2 = toFunctionSelector("getIncomingDelegations(address)");

  test("on another fork ends with code 1", async () => {
    const other = `0x${"ab".repeat(32)}`;
    const { code, stdout } = await auditOver(async ({ method }) =>
      method === "eth_getBlockByNumber"
        ? { result: { ...(await readNewestBlock(chain.url)), hash: other } }
        : undefined,
    );
    expect(code).toBe(1);
    expect(stdout).toContain(`the chain says ${other}. They are on different forks`);
  });

  test("with a limit of 16 blocks per request requests fewer blocks", async () => {
    const { code, stderr, seen } = await auditOver(({ method, params }) => {
      if (method !== "eth_getLogs") return undefined;
      const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
      return Number(toBlock) - Number(fromBlock) >= 16
        ? refuse(-32_005, "query exceeds max block range 16")
        : undefined;
    });
    expect([code, stderr]).toEqual([0, expect.anything()]);
    expect(seen.filter(({ method }) => method === "eth_getLogs").length).toBeGreaterThan(Number(head) / 16);
  });

  test("with a rate limit retries", async () => {
    let requests = 0;
    const { code, stderr } = await auditOver(() => (++requests % 7 === 0 ? { status: 429 } : undefined));
    expect([code, stderr]).toEqual([0, expect.anything()]);
  });

  test("without reads by block hash reads by number, then verifies the block's hash", async () => {
    const { code, stderr, seen } = await auditOver(({ method, params }) =>
      method === "eth_call" && typeof params[1] === "object"
        ? refuse(-32_602, "invalid argument 1: hex string expected")
        : undefined,
    );
    expect([code, stderr]).toEqual([0, expect.anything()]);
    expect(seen.at(-1)?.method).toBe("eth_getBlockByNumber");
  });

  test("starts over after a reorg", async () => {
    let asked = 0;
    // More often than the transport retries a missing block.
    const { code, stderr } = await auditOver(({ method }) =>
      method === "eth_getBlockByNumber" && ++asked <= 4 ? { result: null } : undefined,
    );
    expect([code, stderr]).toEqual([0, expect.stringContaining("Starting over")]);
  });

  test("without a wallet's incoming list compares the vaults' lists with --all, and ends a sample with code 2", async () => {
    const refuseIncoming: Intercept = ({ method, params }) => {
      if (method !== "eth_call") return undefined;
      const { data } = params[0] as { data: string };
      return data.includes(lower(HOT).slice(2)) && data.startsWith(INCOMING_V2)
        ? refuse(-32_000, "out of gas")
        : undefined;
    };
    expect((await auditOver(refuseIncoming)).code).toBe(0);
    const { code, stdout, stderr } = await auditOver(refuseIncoming, "--chain 1 --sample 100");
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(`The incoming v2 delegations of ${lower(HOT)} cannot be read: out of gas`);
  });

  test("without the state of the block ends with code 2 and asks for an archive node", async () => {
    const { code, stdout, stderr } = await auditOver(
      ({ method }) => (method === "eth_call" ? refuse(-32_000, "missing trie node") : undefined),
      "--chain 1 --block 5",
    );
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(
      /The RPC does not have the state of block 5\. Set PONDER_RPC_URL_<chainId> to an archive node.*missing trie node/s,
    );
  });

  test("on another chain ends with code 2", async () => {
    const stderr = expect.stringContaining("is on chain 137, not on chain 1");
    const outcome = await auditOver(({ method }) => (method === "eth_chainId" ? { result: "0x89" } : undefined));
    expect(outcome).toMatchObject({ code: 2, stdout: "", stderr });
  });

  test("that is unreachable ends with code 2 and does not show the URL's secrets", async () => {
    const away = `http://somebody:hunter2@127.0.0.1:${await findFreePort()}/hunter2`;
    const { code, stdout, stderr } = await audit("--chain 1", { PONDER_RPC_URL_1: away });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("The RPC cannot be read");
    expect(stderr).not.toContain("hunter2");
  });
});

describe("audit ends with code 2 and the reason", () => {
  const expectUnknown = async (args: string, reason: string, env: NodeJS.ProcessEnv = {}) =>
    expect(await audit(args, env)).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining(reason) });

  test("when the chain is not indexed, or nothing is", async () => {
    await expectUnknown("--chain 137", "Chain 137 is not indexed in this database", { PONDER_RPC_URL_137: chain.url });
    await expectUnknown("--chain 1", "Chain 1 is not indexed in this database", {
      DATABASE_URL: await createDatabase(),
    });
  });

  test("when the index is catching up", async () => {
    await database.query("update indexer.shard set caught_up = false");
    onTestFinished(() => database.query("update indexer.shard set caught_up = true").then(() => {}));
    await expectUnknown("--chain 1", "Chain 1 is still being indexed: its index has reached block");
  });

  test("when the block is not indexed yet", () =>
    expectUnknown(`--chain 1 --block ${head + 1n}`, `Block ${head + 1n} is not indexed yet`));

  test("when settings are bad, with all problems at once", async () => {
    const env = { PONDER_RPC_URL_1: "ftp://x", DATABASE_URL: "mysql://x" };
    for (const name of ["--sample", "--block", "PONDER_RPC_URL_1", "DATABASE_URL"]) {
      await expectUnknown("--chain 1 --sample many --block -", `${name} must be`, env);
    }
    await expectUnknown("--chain 1 --all --sample 5", "cannot be combined");
    await expectUnknown("--chain 137", "PONDER_RPC_URL_137 is not set");
    await expectUnknown("--chain 4", "known chain ids are 1, ");
    await expectUnknown("--everything", "npm run audit -- --chain <chainId>");
  });
});
