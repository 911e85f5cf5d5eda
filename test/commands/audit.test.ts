import { execFile } from "node:child_process";
import { join } from "node:path";
import pg from "pg";
import { toFunctionSelector } from "viem";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { networks } from "../../registry/networks.ts";
import { encodeV2 } from "../../sandbox/calls.ts";
import type { LocalChain } from "../../sandbox/chain.ts";
import { compileContracts } from "../../sandbox/contracts.ts";
import { sendSamples } from "../../sandbox/samples.ts";
import { findFreePort } from "../../stack/ports.ts";
import { AIRDROP, COIN, GONE, GUEST, HOT, NFT, SAFE, VAULT } from "../support/api.ts";
import { requestBlock } from "../support/indexed-subject.ts";
import { launchIndexerProcess } from "../support/indexer-process.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { createDatabase, launchChain, untilAnalytics, untilIndexed } from "../support/setup.ts";

// A chain with delegations of every kind, ended in every way, and its index, whose indexer has ended.

const CHAIN_ID = 1;
const ROOT = join(import.meta.dirname, "../..");

let chain: LocalChain;
let databaseUrl: string;
let database: pg.Client;
let head: bigint;

beforeAll(async () => {
  chain = await launchChain(CHAIN_ID);
  await sendSamples(chain, await compileContracts());
  // Two wallets that have to do with nobody else.
  const { from, to, v2 } = strangers();
  const data = encodeV2("delegateAll", [to, AIRDROP, true]);
  await chain.client.sendTransaction({ account: from, chain: null, to: v2, data, gas: 2_000_000n });
  await chain.client.mine({ blocks: 1 });
  head = await chain.client.getBlockNumber();

  databaseUrl = await createDatabase();
  database = new pg.Client(databaseUrl);
  await database.connect();
  // What is tampered with here, Ponder's triggers need not see.
  await database.query("set session_replication_role = replica");
  const indexer = await launchIndexerProcess({ databaseUrl, chains: [chain] });
  await untilIndexed(database, chain);
  await untilAnalytics(database);
  await indexer.stop();
});
afterAll(async () => {
  await database?.end();
  await chain?.stop();
});

const strangers = () => {
  const [from, to] = chain.accounts.slice(10);
  const v2 = networks.get(CHAIN_ID)?.v2?.address;
  if (!from || !to || !v2) throw new Error("The chain lacks accounts, or the v2 registry.");
  return { from, to, v2 };
};

type Outcome = { code: number; stdout: string; stderr: string };

/** `npm run audit -- …`, to its end. */
const audit = (args: string, env: NodeJS.ProcessEnv = {}): Promise<Outcome> =>
  new Promise((resolve) => {
    const all = {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DATABASE_URL: databaseUrl,
      [`PONDER_RPC_URL_${CHAIN_ID}`]: chain.url,
      ...env,
    };
    const options = { cwd: ROOT, env: all, timeout: 120_000 };
    execFile(
      process.execPath,
      ["--import", "tsx", "audit/main.ts", ...args.split(" ")],
      options,
      (error, stdout, stderr) => {
        expect(stderr).not.toMatch(/^\s+at /m);
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      },
    );
  });

/** Runs a statement as a fault of the index, and takes it back after the test. */
const tamper = async (statement: string): Promise<void> => {
  const tables = ["delegation_v1", "delegation_v2", "delegation_change"];
  for (const table of tables) await database.query(`create temp table ${table}_kept as table registry.${table}`);
  onTestFinished(async () => {
    for (const table of tables) {
      await database.query(`delete from registry.${table}`);
      await database.query(`insert into registry.${table} select * from ${table}_kept`);
      await database.query(`drop table ${table}_kept`);
    }
  });
  const { rowCount } = await database.query(statement);
  expect(rowCount).toBe(1);
};

const lower = (text: string) => text.toLowerCase();

describe("a right index", () => {
  test("agrees with the chain: all of it, and a sample", async () => {
    for (const args of ["--all", "--sample 4", ""]) {
      const { code, stdout, stderr } = await audit(`--chain 1 ${args}`.trim());
      expect([code, stderr]).toEqual([0, expect.stringContaining("Database ")]);
      expect(stdout).toMatch(
        /^Chain 1 \(Ethereum\) at block \d+: \d+ wallets, \d+ delegations and \d+ checks compared, the index agrees with the chain\.\n$/,
      );
      const [wallets, delegations, checks] = stdout.match(/\d+ (?=wallets|delegations|checks)/g)?.map(Number) ?? [];
      expect(stdout).toContain(`at block ${head}:`);
      if (args === "--all") expect([wallets, delegations]).toEqual([10, 15]);
      if (args === "--sample 4") expect(wallets).toBe(4);
      expect(checks).toBeGreaterThan(10);
    }
  });

  test("agrees with it at past blocks, before and after v1 revocations that the event does not tell", async () => {
    const blocks = [0n, head / 2n, head - 3n, head - 2n, head - 1n];
    const outcomes = await Promise.all(blocks.map((block) => audit(`--chain 1 --all --block ${block}`)));
    for (const [index, { code, stdout, stderr }] of outcomes.entries()) {
      expect([code, stderr]).toEqual([0, expect.anything()]);
      expect(stdout).toContain(`at block ${blocks[index]}: `);
    }
  });
});

describe("a wrong index is found out, with what differs and how", () => {
  const expectDifference = async (args: string, line: string) => {
    const { code, stdout } = await audit(`--chain 1 ${args}`);
    const [first, ...others] = stdout.trimEnd().split("\n");
    expect([code, lower(first ?? "")]).toEqual([1, lower(line)]);
    expect(others).toEqual([expect.stringMatching(/compared, 1 differences\.$/)]);
  };
  const FULL = `0x${"0".repeat(64)}`;

  test("a delegation that was never made", async () => {
    await tamper(
      `insert into registry.delegation_v2 (chain_id, vault, delegate, type, contract, token_id, rights, amount, block_number, log_index, block_timestamp, transaction_hash)
       select chain_id, vault, '${lower(GONE)}', 'ALL', contract, token_id, rights, 0, block_number, log_index, block_timestamp, transaction_hash
       from registry.delegation_v2 where vault = '${lower(VAULT)}' and delegate = '${lower(HOT)}' and type = 'ALL'`,
    );
    await expectDifference(
      "--all",
      `v2 ALL vault ${VAULT} delegate ${GONE} rights ${FULL}: the index says delegated, the chain says not delegated, at block ${head}.`,
    );
  });

  test("a delegation that is missing, of wallets that the index does not know otherwise", async () => {
    const { from, to } = strangers();
    await tamper(`delete from registry.delegation_v2 where vault = '${lower(from)}'`);
    const line = `v2 ALL vault ${from} delegate ${to} rights ${AIRDROP}: the index says not delegated, the chain says delegated, at block ${head}.`;
    await expectDifference("--all", line);
    await expectDifference("--sample 100", line);
  });

  test("another amount", async () => {
    await tamper(
      `update registry.delegation_v2 set amount = 250001 where delegate = '${lower(GUEST)}' and type = 'ERC20'`,
    );
    await expectDifference(
      "--all",
      `v2 ERC20 vault ${VAULT} delegate ${GUEST} contract ${COIN} rights ${FULL}: the index says amount 250001, the chain says amount 250000, at block ${head}.`,
    );
  });

  test("a v1 delegation that a contract wallet has revoked, which an indexer that believes the event keeps", async () => {
    await tamper(
      `insert into registry.delegation_v1
       select chain_id, vault, '${lower(GONE)}', type, contract, token_id, block_number, log_index, block_timestamp, transaction_hash
       from registry.delegation_v1 where vault = '${lower(SAFE)}'`,
    );
    await expectDifference(
      "--all",
      `v1 ALL vault ${SAFE} delegate ${GONE}: the index says delegated, the chain says not delegated, at block ${head}.`,
    );
  });

  test("a log that has lost a revocation, at a past block", async () => {
    await tamper(
      `delete from registry.delegation_change
       where registry = 'v2' and delegate = '${lower(GONE)}' and type = 'ERC1155' and not active`,
    );
    expect((await audit("--chain 1 --all")).stdout).not.toContain("ERC1155");
    await expectDifference(
      `--all --block ${head}`,
      `v2 ERC1155 vault ${VAULT} delegate ${GONE} contract ${NFT} token 7 rights ${FULL}: the index says amount 3, the chain says not delegated, at block ${head}.`,
    );
  });

  test("an index on another fork", async () => {
    const proxy = await startRpcProxy(chain.url);
    const other = `0x${"ab".repeat(32)}`;
    proxy.intercept = async ({ method }) =>
      method === "eth_getBlockByNumber" ? { result: { ...(await requestBlock(chain.url)), hash: other } } : undefined;
    const { code, stdout } = await audit("--chain 1", { PONDER_RPC_URL_1: proxy.url });
    expect(code).toBe(1);
    expect(stdout).toContain(`the chain says ${other}. They are on different forks`);
  });
});

describe("whatever the RPC is like", () => {
  const overProxy = async (
    intercept: Awaited<ReturnType<typeof startRpcProxy>>["intercept"],
    args = "--chain 1 --all",
  ) => {
    const proxy = await startRpcProxy(chain.url);
    proxy.intercept = intercept;
    return { ...(await audit(args, { PONDER_RPC_URL_1: proxy.url })), seen: proxy.seen };
  };
  const refuse = (code: number, message: string) => ({ error: { code, message } });
  const INCOMING_V2 = toFunctionSelector("getIncomingDelegations(address)");
  const isByHash = (params: unknown[]) => typeof params[1] === "object";

  test("one that gives events of five blocks at a time is asked for fewer", async () => {
    const { code, stderr, seen } = await overProxy(({ method, params }) => {
      if (method !== "eth_getLogs") return undefined;
      const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
      return Number(toBlock) - Number(fromBlock) >= 5 ? refuse(-32_005, "query exceeds max block range 5") : undefined;
    });
    expect([code, stderr]).toEqual([0, expect.anything()]);
    expect(seen.filter(({ method }) => method === "eth_getLogs").length).toBeGreaterThan(Number(head) / 5);
  });

  test("one that limits its requests is asked again", async () => {
    let requests = 0;
    const { code, stderr } = await overProxy(() => (++requests % 7 === 0 ? { status: 429 } : undefined));
    expect([code, stderr]).toEqual([0, expect.anything()]);
  });

  test("one that cannot read by a block's hash is asked by its number, and whether that is still the block", async () => {
    const { code, stderr, seen } = await overProxy(({ method, params }) =>
      method === "eth_call" && isByHash(params)
        ? refuse(-32_602, "invalid argument 1: hex string expected")
        : undefined,
    );
    expect([code, stderr]).toEqual([0, expect.anything()]);
    expect(seen.at(-1)?.method).toBe("eth_getBlockByNumber");
  });

  test("a reorg in between: it starts over", async () => {
    let asked = 0;
    // More often than a block is asked for that is not there yet.
    const { code, stderr } = await overProxy(({ method }) =>
      method === "eth_getBlockByNumber" && ++asked <= 4 ? { result: null } : undefined,
    );
    expect([code, stderr]).toEqual([0, expect.stringContaining("Starting over")]);
  });

  test("a list that the node cannot give: all is compared by the vaults' lists, a sample is told of it", async () => {
    const refuseIncoming = ({ method, params }: { method: string; params: unknown[] }) => {
      if (method !== "eth_call") return undefined;
      const { data } = params[0] as { data: string };
      return data.includes(lower(HOT).slice(2)) && data.startsWith(INCOMING_V2)
        ? refuse(-32_000, "out of gas")
        : undefined;
    };
    expect((await overProxy(refuseIncoming)).code).toBe(0);
    const { code, stdout, stderr } = await overProxy(refuseIncoming, "--chain 1 --sample 100");
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(`The incoming v2 delegations of ${lower(HOT)} cannot be read: out of gas`);
  });

  test("one that has lost the state of the block: code 2, and what to do", async () => {
    const { code, stdout, stderr } = await overProxy(
      ({ method }) => (method === "eth_call" ? refuse(-32_000, "missing trie node") : undefined),
      "--chain 1 --block 5",
    );
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("The RPC does not tell the state of block 5. Name an archive node");
    expect(stderr).toContain("missing trie node");
  });

  test("one that is on another chain, or away: code 2, and no secret of its URL", async () => {
    const away = `http://somebody:hunter2@127.0.0.1:${await findFreePort()}/hunter2`;
    const other = await overProxy(({ method }) => (method === "eth_chainId" ? { result: "0x89" } : undefined));
    expect([other.code, other.stdout]).toEqual([2, ""]);
    expect(other.stderr).toContain("is on chain 137, not on chain 1");

    const { code, stdout, stderr } = await audit("--chain 1", { PONDER_RPC_URL_1: away });
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("The RPC cannot be read");
    expect(stderr).not.toContain("hunter2");
  });
});

describe("where nothing can be said, code 2 and why", () => {
  const expectUnknown = async (args: string, reason: string, env: NodeJS.ProcessEnv = {}) => {
    const { code, stdout, stderr } = await audit(args, env);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(reason);
  };

  test("a chain that is not indexed, or not in this database at all", async () => {
    await expectUnknown("--chain 137", "Chain 137 is not indexed in this database", { PONDER_RPC_URL_137: chain.url });
    await expectUnknown("--chain 1", "Chain 1 is not indexed in this database", {
      DATABASE_URL: await createDatabase(),
    });
  });

  test("a chain that is catching up", async () => {
    await database.query("update indexer.shard set caught_up = false");
    onTestFinished(async () => {
      await database.query("update indexer.shard set caught_up = true");
    });
    await expectUnknown("--chain 1", "Chain 1 is still being indexed: its index has reached block");
  });

  test("a block that is not indexed yet", async () => {
    await expectUnknown(`--chain 1 --block ${head + 1n}`, `Block ${head + 1n} is not indexed yet`);
  });

  test("settings that cannot be used: all problems at once; and how it is used", async () => {
    const env = { PONDER_RPC_URL_1: "ftp://x", DATABASE_URL: "mysql://x" };
    const { stderr } = await audit("--chain 1 --sample many --block -", env);
    for (const reason of ["--sample must be", "--block must be", "PONDER_RPC_URL_1 must be", "DATABASE_URL must be"]) {
      expect(stderr).toContain(reason);
    }
    await expectUnknown("--chain 1 --all --sample 5", "cannot be had together");
    await expectUnknown("--chain 137", "PONDER_RPC_URL_137 is not set");
    await expectUnknown("--chain 4", "known chain ids are 1, ");
    await expectUnknown("--everything", "npm run audit -- --chain <chainId>");
  });
});
