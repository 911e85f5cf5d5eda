import { expect } from "vitest";
import { type Api, CHECK, COIN, GONE, GUEST, HOT, NFT, OPERATIONS, VAULT } from "../support/api.ts";
import { hideLogColumn, readServedSchema, startChangedSamples } from "../support/index-copy.ts";
import { test } from "../support/test.ts";
import { askWallet, type History } from "../support/wallets.ts";

// Answers at a past block, over the sandbox's samples. test/index/differential.test.ts compares them with the registries.

const ALL = [...OPERATIONS.v1, ...OPERATIONS.v2];
const isList = (path: string) => !path.includes("?");

/** The newest indexed block, and the newest final one. */
let newest: number;
let final: number;
test.beforeAll(async ({ samples }) => {
  const { headers } = await samples.get(CHECK);
  newest = Number(headers.get("X-Indexed-Block"));
  final = Number(headers.get("X-Finalized-Block"));
});

const ask = async (api: Api, path: string, at: string) => {
  const response = await api.get(`${path}${path.includes("?") ? "&" : "?"}${at}`);
  const block = response.headers.get("X-Answered-Block");
  const isFinal = response.headers.get("X-Answered-Block-Final");
  return { status: response.status, block, isFinal, body: await response.text(), headers: response.headers };
};

test("every operation answers for a past block, and says which one and if it is final", async ({ samples }) => {
  for (const path of ALL) {
    const current = await (await samples.get(path)).text();
    const atNewest = await ask(samples, path, `block=${newest}`);
    expect(atNewest, path).toMatchObject({ status: 200, block: String(newest), isFinal: "false", body: current });

    // Before the registries existed.
    const nothing = isList(path) ? "[]" : /erc(20|1155)/.test(path) ? "0" : "false";
    expect(await ask(samples, path, "block=0"), path).toMatchObject({
      status: 200,
      block: "0",
      isFinal: "true",
      body: nothing,
    });
    expect((await samples.get(path)).headers.get("X-Answered-Block"), path).toBeNull();
  }
});

test("a revoked delegation holds until the block before its revocation, and an amount until its change", async ({
  samples,
}) => {
  const changesOf = async (wallet: string) => {
    const { changes } = await askWallet<History>(samples, `${wallet}/history?chainId=1&registry=v2`);
    return changes;
  };
  const [revoked = 0, made = 0] = (await changesOf(GONE))
    .filter(({ type }) => type === "ALL")
    .map(({ blockNumber }) => blockNumber);
  const gone = `/registry/v2/check/all?to=${GONE}&from=${VAULT}`;
  for (const [block, answer] of [
    [made - 1, "false"],
    [made, "true"],
    [revoked - 1, "true"],
    [revoked, "false"],
  ] as const) {
    expect((await ask(samples, gone, `block=${block}`)).body, `${block}`).toBe(answer);
  }

  const changed = (await changesOf(GUEST)).find(({ kind }) => kind === "changed")?.blockNumber ?? 0;
  const coins = `/registry/v2/check/erc20?delegate=${GUEST}&vault=${VAULT}&contract=${COIN}`;
  expect((await ask(samples, coins, `block=${changed - 1}`)).body).toBe("1000000");
  expect((await ask(samples, coins, `block=${changed}`)).body).toBe("250000");
  const list = `/registry/v2/${GUEST}?details=true`;
  const amounts = async (block: number) => {
    const rows = JSON.parse((await ask(samples, list, `block=${block}`)).body) as { amount: number | null }[];
    return rows.flatMap(({ amount }) => amount ?? []);
  };
  expect(await amounts(changed - 1)).toEqual([1_000_000, 5]);
  expect(await amounts(changed)).toEqual([250_000, 5]);
});

test("block=finalized answers for the newest final block", async ({ samples }) => {
  for (const path of [CHECK, `/registry/v1/${VAULT}`]) {
    expect(await ask(samples, path, "block=finalized")).toMatchObject({
      status: 200,
      block: String(final),
      isFinal: "true",
    });
  }
});

test("minBlock answers for the newest block once it is indexed", async ({ samples }) => {
  const current = await (await samples.get(CHECK)).text();
  expect(await ask(samples, CHECK, `minBlock=${newest}`)).toMatchObject({
    status: 200,
    block: String(newest),
    isFinal: "false",
    body: current,
  });
});

test("a block that is not indexed yet is a 503 that says how far the index is", async ({ samples }) => {
  for (const path of ALL) {
    for (const at of [`block=${newest + 1}`, `minBlock=${newest + 1}`]) {
      const { status, body, block, headers } = await ask(samples, path, at);
      expect([status, headers.get("Retry-After"), block], `${path} ${at}`).toEqual([503, "10", null]);
      expect(JSON.parse(body)).toMatchObject({
        type: "/docs#problem-not-indexed",
        detail: `Chain 1 (Ethereum) is indexed up to block ${newest}, not yet up to block ${newest + 1}.`,
      });
    }
  }
});

test("a stale index answers for a final block only", async () => {
  const { api } = await startChangedSamples(
    (database, schema) => database.query(`update ${schema}.indexed_block set timestamp = timestamp - 86400`),
    {},
  );
  const status = async (at: string) => (await api.get(`${CHECK}${at}`)).status;
  expect(await status("")).toBe(503);
  expect(await status(`&block=${newest}`)).toBe(503);
  expect(await status(`&minBlock=${final}`)).toBe(503);
  expect(await status(`&block=${final}`)).toBe(200);
});

test("bad blocks are named together with other bad parameters", async ({ samples }) => {
  const cases: [at: string, ...parameters: string[]][] = [
    ["block=latest", "block"],
    ["block=-1", "block"],
    ["block=0x10", "block"],
    ["block=1.5", "block"],
    ["block=", "block"],
    ["block=1234567890123456", "block"],
    ["minBlock=finalized", "minBlock"],
    ["block=1&block=2", "block"],
    ["block=1&minBlock=1", "minBlock"],
    ["block=x&chainId=x", "chainId", "block"],
    ["block=1&timestamp=1", "timestamp"],
    ["block=x&minBlock=x&timestamp=x", "block", "minBlock", "timestamp"],
  ];
  for (const path of ALL) {
    for (const [at, ...parameters] of cases) {
      const { status, body } = await ask(samples, path, at);
      const { errors } = JSON.parse(body) as { errors: { parameter: string }[] };
      expect([status, errors.map(({ parameter }) => parameter)], `${path} ${at}`).toEqual([400, parameters]);
    }
  }
});

/** Reads all pages of a list, and returns the path of each. */
const readPages = async (api: Api, path: string) => {
  const rows: { tokenId: number }[] = [];
  const paths: string[] = [];
  for (let next: string | undefined = path; next; ) {
    const response: Response = await api.get(next);
    expect(response.status, next).toBe(200);
    paths.push(next);
    rows.push(...((await response.json()) as typeof rows));
    next = /<(.*)>; rel="next"/.exec(response.headers.get("Link") ?? "")?.[1];
  }
  return { rows, paths };
};

test("the pages of a list keep to one block", async ({ samples }) => {
  const whole = JSON.parse((await ask(samples, `/registry/v2/${VAULT}`, `block=${newest}`)).body) as unknown[];
  expect(whole.length).toBeGreaterThan(3);
  const { rows, paths } = await readPages(samples, `/registry/v2/${VAULT}?block=${newest}&limit=1`);
  expect(rows).toEqual(whole);
  for (const path of paths) expect(path).toContain(`block=${newest}`);

  const [, second = ""] = paths;
  for (const other of [
    second.replace(`block=${newest}`, `block=${newest - 1}`),
    second.replace(`block=${newest}`, ""),
  ]) {
    const refused = await samples.get(other);
    expect([refused.status, await refused.json()]).toMatchObject([400, { errors: [{ parameter: "cursor" }] }]);
  }
});

test("a wallet's list at a block is found behind any number of ended delegations", async ({ api, database }) => {
  const schema = await readServedSchema(database);
  const [spammed, contract] = [`0x${"5b".repeat(20)}`, NFT.toLowerCase()];
  const zero = `0x${"0".repeat(64)}`;
  const hash = "'0x' || repeat(md5(i::text), 2)";
  const insert = (from: string, block: string, state: string) =>
    database.query(
      `insert into ${schema}.delegation_change (chain_id, block_number, log_index, ordinal, vault, delegate, registry, type,
         contract, token_id, rights, active, was_active, amount, event, made_block, made_log_index, block_timestamp, transaction_hash)
       select 1, ${block}, i, 0, '${HOT.toLowerCase()}', '${spammed}', 'v2', 'ERC721', '${contract}', i, '${zero}', ${state}, 0,
         'DelegateERC721', 1, i, 1700000000, ${hash} from ${from} i`,
    );
  await database.query("set session_replication_role = replica");
  // 12,000 that were revoked, every thousandth delegation excepted.
  await insert("generate_series(1, 12000)", "1", "true, false");
  await insert("(select i from generate_series(1, 12000) i where i % 1000 <> 0)", "2", "false, true");

  const left = Array.from({ length: 12 }, (_, index) => (index + 1) * 1000);
  const ids = (rows: readonly { tokenId: number }[]) => rows.map(({ tokenId }) => tokenId);
  const { rows, paths } = await readPages(api, `/registry/v2/${spammed}?block=2&limit=100`);
  expect(ids(rows)).toEqual(left);
  // Each page reads a bounded part of the log.
  expect(paths.length).toBeGreaterThan(2);
  expect(ids(JSON.parse((await ask(api, `/registry/v2/${spammed}`, "block=2")).body))).toEqual(left);
  const streamed = JSON.parse((await ask(api, `/registry/v2/${spammed}`, "block=1")).body) as { tokenId: number }[];
  expect(ids(streamed)).toEqual(Array.from({ length: 12_000 }, (_, index) => index + 1));
  const token = `/registry/v2/check/erc721?to=${spammed}&from=${HOT}&contract=${NFT}&tokenId=7`;
  expect((await ask(api, token, "block=2")).body).toBe("false");
  expect((await ask(api, token, "block=1")).body).toBe("true");
});

test("an older index, whose log lacks a column, answers for the newest block only", async () => {
  const { api } = await startChangedSamples((database) => hideLogColumn(database, "made_block"));
  const notIndexed = { type: "/docs#problem-not-indexed", detail: expect.stringContaining("older version") };
  for (const path of [CHECK, `/registry/v2/${VAULT}?limit=2`, `/registry/v1/${VAULT}?details=true`]) {
    expect((await api.get(path)).status, path).toBe(200);
    const refused = await api.get(`${path}&block=1`);
    expect([refused.status, await refused.json()], path).toMatchObject([503, notIndexed]);
  }
});
