import pg from "pg";
import { maxUint256 } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PLANNING } from "../../api/database.ts";
import { activeStatement } from "../../api/queries/explorer/list-active.ts";
import { historyStatement } from "../../api/queries/explorer/read-history.ts";
import { NEWEST } from "../../api/queries/explorer/rows.ts";
import { CHECKS } from "../../registry/check-rule.ts";
import {
  AIRDROP,
  type Api,
  COIN,
  createSampleDatabase,
  FRESH_FOR_A_DAY,
  FRIEND,
  GONE,
  GUEST,
  HOT,
  launchApi,
  NFT,
  OTHER,
  SAFE,
  startApi,
  VAULT,
} from "../support/api.ts";
import type { Explained, ExplorerNetwork, HistoryPage, ListPage } from "../support/explorer.ts";
import { readAllPages } from "../support/explorer.ts";
import { servedSchema } from "../support/index-copy.ts";
import { connect, until } from "../support/setup.ts";

// Over the sandbox's samples: see sandbox/samples.ts for who delegated what to whom.

const STRANGER = `0x${"12".repeat(20)}`;
const MAX = String(maxUint256);

let databaseUrl: string;
let api: Api;
beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
  api = await launchApi({ databaseUrl, env: FRESH_FOR_A_DAY });
});
afterAll(() => api?.stop());

const ask = async <Content>(path: string): Promise<Content> => {
  const response = await api.get(path);
  const body = await response.text();
  expect(response.status, body).toBe(200);
  return JSON.parse(body);
};

const query = (parameters: Record<string, string>) => new URLSearchParams(parameters).toString();

const PLACE = {
  blockNumber: expect.any(Number),
  blockTimestamp: expect.any(Number),
  transactionHash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
};

describe("delegations", () => {
  const list = (wallet: string, direction: "in" | "out", more = "") =>
    ask<ListPage>(`/explorer/delegations/${wallet}?direction=${direction}${more}`);

  test("are those of both registries in one direction, made last first, with all there is to know", async () => {
    const { delegations, ...page } = await list(VAULT.toLowerCase(), "out");
    expect(page).toEqual({
      chainId: 1,
      wallet: VAULT,
      direction: "out",
      block: { number: expect.any(Number), timestamp: expect.any(Number), finalized: expect.any(Number) },
      next: null,
    });
    expect(delegations.map(({ registry, type, to }) => [registry, type, to])).toEqual([
      ["v1", "TOKEN", GUEST],
      ["v1", "CONTRACT", FRIEND],
      ["v1", "ALL", HOT],
      ["v2", "TOKEN", GUEST],
      ["v2", "TOKEN", GUEST],
      ["v2", "TOKEN", GUEST],
      ["v2", "CONTRACT", FRIEND],
      ["v2", "ALL", FRIEND],
      ["v2", "ALL", HOT],
    ]);
    expect(delegations[3]).toEqual({
      registry: "v2",
      type: "TOKEN",
      tokenStandard: "ERC1155",
      from: VAULT,
      to: GUEST,
      contract: NFT,
      tokenId: "7",
      rights: AIRDROP,
      rightsText: "airdrop",
      amount: "5",
      since: PLACE,
    });
    expect(delegations[2]).toEqual({
      registry: "v1",
      type: "ALL",
      tokenStandard: null,
      from: VAULT,
      to: HOT,
      contract: null,
      tokenId: null,
      rights: null,
      rightsText: null,
      amount: null,
      since: PLACE,
    });
    // The amount that it was given last, and still as old as it was.
    expect(delegations[4]).toMatchObject({ tokenStandard: "ERC20", contract: COIN, tokenId: null, amount: "250000" });
    expect(delegations[4]?.since.blockNumber).toBeLessThan(delegations[3]?.since.blockNumber ?? 0);
  });

  test("of a wallet to itself are incoming, and only there", async () => {
    const own = (page: ListPage) => page.delegations.filter(({ from, to }) => from === to).length;
    expect(own(await list(OTHER, "in"))).toBe(1);
    expect(own(await list(OTHER, "out"))).toBe(0);
  });

  test("token ids are exact", async () => {
    const { delegations } = await list(OTHER, "out");
    expect(delegations.map(({ tokenId }) => tokenId)).toContain(MAX);
  });

  test("are none for a wallet without any", async () => {
    expect(await list(STRANGER, "in")).toMatchObject({ delegations: [], next: null });
  });

  test.for([1, 2, 3, 50])("come in pages of %i that make up the whole", async (limit) => {
    for (const wallet of [VAULT, HOT, OTHER, GONE]) {
      for (const direction of ["in", "out"] as const) {
        const whole = await list(wallet, direction, "&chainId=137");
        const path = `/explorer/delegations/${wallet}?direction=${direction}&chainId=137&limit=${limit}`;
        const pages = await readAllPages<ListPage>(ask, path);
        expect(pages.flatMap(({ delegations }) => delegations)).toEqual(whole.delegations);
        for (const { delegations } of pages) expect(delegations.length).toBeLessThanOrEqual(limit);
      }
    }
  });
});

describe("history", () => {
  const history = (wallet: string, more = "") => ask<HistoryPage>(`/explorer/history/${wallet}?limit=50${more}`);
  const story = ({ changes }: HistoryPage) =>
    changes.map(({ kind, direction, registry, event }) => [kind, direction, registry, event].join(" "));

  test("tells all that was made, changed and revoked, newest first", async () => {
    expect(story(await history(GONE))).toEqual([
      "revoked in v1 RevokeDelegate",
      "made in v1 DelegateForAll",
      "revoked in v1 RevokeDelegate",
      "made in v1 DelegateForAll",
      "revoked in v1 DelegateForContract",
      "made in v1 DelegateForContract",
      "revoked in v2 DelegateERC1155",
      "made in v2 DelegateERC1155",
      "revoked in v2 DelegateAll",
      "made in v2 DelegateAll",
    ]);
    const { changes } = await history(GUEST);
    const coins = changes.filter(({ tokenStandard }) => tokenStandard === "ERC20");
    expect(coins.map(({ kind, amount }) => [kind, amount])).toEqual([
      ["changed", "250000"],
      ["made", "1000000"],
    ]);
    expect(changes.at(-1)).toEqual({
      id: expect.stringMatching(/^\d+-\d+-0$/),
      kind: "made",
      direction: "in",
      event: "DelegateERC721",
      registry: "v2",
      type: "TOKEN",
      tokenStandard: "ERC721",
      from: VAULT,
      to: GUEST,
      contract: NFT,
      tokenId: "8520",
      rights: null,
      rightsText: null,
      amount: null,
      ...PLACE,
    });
  });

  test("names whom a v1 revocation ended where the event does not, to both of them", async () => {
    const ofSafe = (await history(SAFE)).changes.filter(({ kind }) => kind === "revoked");
    expect(ofSafe.map(({ to, direction }) => [to, direction])).toContainEqual([GONE, "out"]);
    const ofGone = (await history(GONE)).changes[0];
    expect(ofGone).toMatchObject({ kind: "revoked", from: SAFE, to: GONE, direction: "in" });
  });

  test("tells a revocation of all as one change for each that it ended", async () => {
    const ended = (await history(OTHER)).changes.filter(({ event }) => event === "RevokeAllDelegates");
    expect(ended.map(({ kind, type, to }) => [kind, type, to])).toEqual([
      ["revoked", "TOKEN", HOT],
      ["revoked", "ALL", HOT],
    ]);
    expect(new Set(ended.map(({ transactionHash }) => transactionHash)).size).toBe(1);
  });

  test("tells what a wallet delegated to itself once", async () => {
    const own = (await history(OTHER)).changes.filter(({ from, to }) => from === to);
    expect(own).toMatchObject([{ kind: "made", direction: "in" }]);
  });

  test.for([1, 2, 3, 7])("comes in pages of %i that make up the whole", async (limit) => {
    for (const wallet of [VAULT, OTHER, HOT, GONE, SAFE, STRANGER]) {
      const whole = await history(wallet, "&chainId=137");
      const pages = await readAllPages<HistoryPage>(ask, `/explorer/history/${wallet}?chainId=137&limit=${limit}`);
      expect(pages.flatMap(({ changes }) => changes)).toEqual(whole.changes);
      expect(new Set(whole.changes.map(({ id }) => id)).size).toBe(whole.changes.length);
    }
  });
});

describe("an explanation", () => {
  const explain = (parameters: Record<string, string>) => ask<Explained>(`/explorer/explain?${query(parameters)}`);

  test("gives the check's own answer, and every delegation that grants it by itself", async () => {
    const found = await explain({ registry: "v2", type: "erc1155", from: VAULT, to: HOT, contract: NFT, tokenId: "7" });
    expect(found).toMatchObject({ chainId: 1, registry: "v2", type: "erc1155", answer: MAX });
    expect(found.grants).toMatchObject([{ type: "ALL", from: VAULT, to: HOT, gives: MAX, since: PLACE }]);

    const asked = { registry: "v2", from: VAULT, to: FRIEND, contract: NFT, rights: "airdrop" };
    const contract = await explain({ ...asked, type: "contract" });
    expect(contract.answer).toBe(true);
    expect(contract.grants).toMatchObject([
      { type: "ALL", rightsText: "airdrop", gives: null },
      { type: "CONTRACT", rights: null, gives: null },
    ]);
    // Without rights, the one that is limited to some does not count.
    const { rights: _, ...withoutRights } = asked;
    expect((await explain({ ...withoutRights, type: "contract" })).grants).toMatchObject([{ type: "CONTRACT" }]);
    expect(await explain({ ...withoutRights, type: "all" })).toMatchObject({ answer: false, grants: [] });
  });

  test("tells the balance that each grant gives", async () => {
    const asked = { registry: "v2", type: "erc20", vault: VAULT, delegate: GUEST, contract: COIN };
    expect(await explain(asked)).toMatchObject({
      answer: "250000",
      grants: [{ tokenStandard: "ERC20", amount: "250000", gives: "250000" }],
    });
    expect(await explain({ ...asked, delegate: STRANGER })).toMatchObject({ answer: "0", grants: [] });
  });

  test.for((["v1", "v2"] as const).flatMap((registry) => CHECKS[registry].map((type) => [registry, type] as const)))(
    "of %s %s agrees with the check",
    async ([registry, type]) => {
      for (const delegate of [HOT, FRIEND, GUEST, GONE, OTHER]) {
        for (const contract of [NFT, COIN]) {
          const asked = query({ vault: VAULT, delegate, contract, tokenId: "8520", chainId: "137" });
          const { answer, grants } = await ask<Explained>(
            `/explorer/explain?registry=${registry}&type=${type}&${asked}`,
          );
          const checked = await (await api.get(`/registry/${registry}/check/${type}?${asked}`)).text();
          expect(String(answer)).toBe(checked);
          expect(grants.length > 0).toBe(checked !== "false" && checked !== "0");
        }
      }
    },
  );
});

describe("networks", () => {
  const networksOf = async (asked: Api) =>
    ((await (await asked.get("/explorer/networks")).json()) as { networks: ExplorerNetwork[] }).networks;

  test("are all that a registry lives on, with where they are looked up and how fresh they are", async () => {
    const networks = await networksOf(api);
    expect(networks.length).toBe(57);
    expect(networks.map(({ testnet }) => testnet)).toEqual(networks.map(({ testnet }) => testnet).toSorted());
    expect(networks.find(({ chainId }) => chainId === 137)).toEqual({
      chainId: 137,
      name: "Polygon",
      testnet: false,
      status: "active",
      blockExplorer: "https://polygonscan.com",
      registries: {
        v1: "0x00000000000076A84feF008CDAbe6409d2FE638B",
        v2: "0x00000000000000447e69651d841bD8D104Bed493",
      },
      state: "fresh",
      reason: null,
      indexedBlock: { number: expect.any(Number), timestamp: expect.any(Number) },
      newestBlock: { number: expect.any(Number), timestamp: expect.any(Number) },
      progress: null,
    });
    const others = networks.filter(({ chainId }) => chainId !== 1 && chainId !== 137);
    for (const other of others) {
      expect(other).toMatchObject({ state: "not-indexed", reason: null, indexedBlock: null, progress: null });
    }
  });

  test("are behind when their newest block is too old, and say so", async () => {
    const strict = await startApi({ databaseUrl, env: { MAX_INDEX_LAG_SECONDS: "1" } });
    await until("the blocks are older than that", async () => {
      const [ethereum] = await networksOf(strict);
      return ethereum?.state === "behind" && /is indexed up to block/.test(ethereum.reason ?? "");
    });
  });

  test("are being indexed until their index has caught up, from its start block on", async () => {
    const url = await createSampleDatabase();
    const database = await connect(url);
    await database.query("update indexer.shard set caught_up = false");
    await database.query(
      "update indexer.chain set start_number = 1000, reached_number = 1750, newest_number = 2000 where chain_id = 1",
    );
    const started = await startApi({ databaseUrl: url });
    const [ethereum] = await networksOf(started);
    expect(ethereum).toMatchObject({
      state: "indexing",
      indexedBlock: null,
      progress: { startBlock: 1000, reachedBlock: 1750, newestBlock: 2000, share: 0.75 },
    });
    const refused = await started.get(`/explorer/history/${VAULT}`);
    expect(refused.status).toBe(503);
    expect(((await refused.json()) as { type: string }).type).toBe("/docs#problem-not-indexed");

    // As an indexer of an older version left it.
    await database.query("drop schema analytics cascade");
    await database.query("alter table indexer.chain drop column start_number");
    await until("it starts at 0", async () => (await networksOf(started))[0]?.progress?.startBlock === 0);
  });
});

describe("every answer", () => {
  const PATHS = [
    `/explorer/history/${VAULT}`,
    `/explorer/history/${STRANGER}`,
    `/explorer/delegations/${VAULT}?direction=in`,
    `/explorer/explain?${query({ registry: "v1", type: "all", from: VAULT, to: HOT })}`,
  ];

  test.for(PATHS)("says at which block it is true: %s", async (path) => {
    const response = await api.get(path);
    const { block } = (await response.json()) as ListPage;
    expect(response.headers.get("Content-Type")).toBe("application/json");
    expect(response.headers.get("Cache-Control")).toBe("no-store");
    expect(response.headers.get("X-Indexed-Block")).toBe(String(block.number));
    expect(response.headers.get("X-Indexed-Block-Timestamp")).toBe(String(block.timestamp));
    expect(response.headers.get("X-Finalized-Block")).toBe(String(block.finalized));
  });

  test("counts against the one limit, but for the networks, which ask no database", async () => {
    const limited = await startApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "6" } });
    for (const path of [...PATHS, `/registry/v2/${VAULT}`, "/explorer/nothing"]) await limited.get(path);
    for (const path of PATHS) {
      const response = await limited.get(path);
      expect(response.status).toBe(429);
      expect(Number(response.headers.get("Retry-After"))).toBeGreaterThan(0);
    }
    expect((await limited.get("/explorer/networks")).status).toBe(200);
  });

  test("is not in the description of the API, which programs are written for", async () => {
    const { paths } = await ask<{ paths: object }>("/openapi.json");
    expect(Object.keys(paths).filter((path) => path.startsWith("/explorer"))).toEqual([]);
  });
});

test("bad parameters are named, all at once", async () => {
  const cursor = (await ask<HistoryPage>(`/explorer/history/${VAULT}?limit=1`)).next;
  const wallets = { from: VAULT, to: HOT };
  const cases: [path: string, ...parameters: string[]][] = [
    ["/explorer/history/0x12", "wallet"],
    [`/explorer/history/${VAULT}?chainId=10`, "chainId"],
    [`/explorer/history/${VAULT}?chainId=4`, "chainId"],
    [`/explorer/history/${VAULT}?limit=51&cursor=x`, "limit", "cursor"],
    [`/explorer/history/${HOT}?cursor=${cursor}`, "cursor"],
    [`/explorer/history/${VAULT}?chainId=137&cursor=${cursor}`, "cursor"],
    [`/explorer/delegations/${VAULT}?direction=in&cursor=${cursor}`, "cursor"],
    [`/explorer/delegations/${VAULT}`, "direction"],
    [`/explorer/delegations/${VAULT}?direction=up&limit=0`, "limit", "direction"],
    ["/explorer/explain", "registry", "type", "from", "to"],
    [`/explorer/explain?${query({ ...wallets, registry: "v1", type: "erc20" })}`, "type"],
    [`/explorer/explain?${query({ ...wallets, registry: "v2", type: "token" })}`, "type"],
    [`/explorer/explain?${query({ ...wallets, registry: "v2", type: "erc721" })}`, "contract", "tokenId"],
    [`/explorer/explain?${query({ ...wallets, registry: "v2", type: "erc20" })}`, "contract"],
    [`/explorer/explain?${query({ ...wallets, registry: "v2", type: "all", rights: "0x1" })}`, "rights"],
  ];
  for (const [path, ...parameters] of cases) {
    const response = await api.get(path);
    const body = (await response.json()) as { errors: { parameter: string }[] };
    expect(response.status, path).toBe(400);
    expect(
      body.errors.map(({ parameter }) => parameter),
      path,
    ).toEqual(parameters);
  }
});

test("an index of an older version, which does not tell what was changed, is a 503 for history alone", async () => {
  const url = await createSampleDatabase();
  const database = await connect(url);
  const { rows } = await database.query(
    `select string_agg(attname, ', ') as columns from pg_attribute
     where attrelid = 'registry.delegation_change'::regclass and attnum > 0 and attname <> 'was_active'`,
  );
  const schema = await servedSchema(database);
  await database.query("drop view registry.delegation_change cascade");
  await database.query(
    `create view registry.delegation_change as select ${rows[0].columns} from ${schema}.delegation_change`,
  );
  const older = await startApi({ databaseUrl: url, env: FRESH_FOR_A_DAY });
  const refused = await older.get(`/explorer/history/${VAULT}`);
  expect([refused.status, await refused.json()]).toMatchObject([503, { type: "/docs#problem-not-indexed" }]);
  expect((await older.get(`/explorer/delegations/${VAULT}?direction=in`)).status).toBe(200);
});

describe("a page costs the same for any wallet", () => {
  const CHANGES = 60_000;
  const FAMOUS = `0x${"fa".repeat(20)}`;
  /** Some pages of the indexes and of the table for each row, and few for everything else. */
  const MOST_PAGES = 400;

  test.for([
    ["that has never been analyzed, as after a backfill", ""],
    ["with statistics", "analyze"],
  ] as const)("also in the middle of a mass revocation, in tables %s", async ([, prepare]) => {
    const url = await createSampleDatabase();
    const setUp = await connect(url);
    const schema = await servedSchema(setUp);
    // One wallet that everybody delegated to, and that revoked as many of its own in one event.
    await setUp.query("set session_replication_role = replica");
    const numbered = "'0x' || lpad(md5(i::text), 40, '0')";
    const insert = (place: string, ends: string, change: string) =>
      setUp.query(
        `insert into ${schema}.delegation_change (chain_id, block_number, log_index, ordinal, vault, delegate, registry, type, contract,
           token_id, rights, active, was_active, amount, event, block_timestamp, transaction_hash)
         select 1, ${place}, ${ends}, 'v1', 'TOKEN', '${NFT.toLowerCase()}', i, '0x${"0".repeat(64)}', ${change}, 1700000000, '0x' || repeat(md5(i::text), 2)
         from generate_series(1, ${CHANGES}) i`,
      );
    await insert("1000 + i, i % 100, 0", `${numbered}, '${FAMOUS}'`, "true, false, 0, 'DelegateForToken'");
    await insert(`${CHANGES} * 2, 0, i`, `'${FAMOUS}', ${numbered}`, "false, true, 0, 'RevokeAllDelegates'");
    await setUp.query(
      `insert into ${schema}.delegation_v1 (chain_id, vault, delegate, type, contract, token_id, block_number, log_index, block_timestamp, transaction_hash)
       select 1, ${numbered}, '${FAMOUS}', 'TOKEN', '${NFT.toLowerCase()}', i, 1000 + i, i % 100, 1700000000, '0x' || repeat(md5(i::text), 2)
       from generate_series(1, ${CHANGES}) i`,
    );
    if (prepare) await setUp.query(prepare);

    const client = new pg.Client({ connectionString: url, options: PLANNING });
    await client.connect();
    const pagesOf = async (text: string, values: string) => {
      await client.query(`prepare asked as ${text}`);
      const { rows } = await client.query(
        `explain (analyze, buffers, timing off, summary off) execute asked (${values})`,
      );
      await client.query("deallocate asked");
      const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
      expect(plan).not.toContain("Seq Scan");
      const [, hit = 0, read = 0] = /Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/.exec(plan) ?? [];
      return Number(hit) + Number(read);
    };
    const newest = `${NEWEST.blockNumber}, ${NEWEST.logIndex}`;
    const places = [`${newest}, 0`, `${CHANGES * 2}, 0, ${CHANGES / 2}`, `${CHANGES / 2}, 0, 0`];
    for (const place of places) {
      expect(await pagesOf(historyStatement("registry"), `1, '${FAMOUS}', ${place}, 51`), place).toBeLessThan(
        MOST_PAGES,
      );
    }
    for (const place of [newest, `${CHANGES / 2}, 0`]) {
      for (const direction of ["in", "out"] as const) {
        const pages = await pagesOf(activeStatement("registry", direction), `1, '${FAMOUS}', ${place}, 51`);
        expect(pages, `${direction} ${place}`).toBeLessThan(MOST_PAGES);
      }
    }
    await client.end();
  });
});
