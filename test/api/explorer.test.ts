import { maxUint256 } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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
  startTestApi,
  VAULT,
} from "../support/api.ts";
import type { Explained, ExplorerNetwork, HistoryPageJson, ListPageJson } from "../support/explorer.ts";
import { readAllPages } from "../support/explorer.ts";
import { hideLogColumn } from "../support/index-copy.ts";
import { connectClient, waitUntil } from "../support/setup.ts";

// Over the sandbox's samples: local/samples.ts lists their delegations.

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

const NO_TOKEN = { tokenStandard: null, tokenId: null, rights: null, rightsText: null, amount: null };

describe("/explorer/delegations", () => {
  const list = (wallet: string, direction: "in" | "out", more = "") =>
    ask<ListPageJson>(`/explorer/delegations/${wallet}?direction=${direction}${more}`);

  test("lists both registries in one direction, newest first, with every field", async () => {
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
    const erc1155 = { registry: "v2", type: "TOKEN", tokenStandard: "ERC1155", tokenId: "7", amount: "5" };
    const airdrop = { rights: AIRDROP, rightsText: "airdrop" };
    expect(delegations[3]).toEqual({ ...erc1155, ...airdrop, from: VAULT, to: GUEST, contract: NFT, since: PLACE });
    const all = { registry: "v1", type: "ALL", ...NO_TOKEN, contract: null };
    expect(delegations[2]).toEqual({ ...all, from: VAULT, to: HOT, since: PLACE });
    // The latest amount, and the time of the first one.
    expect(delegations[4]).toMatchObject({ tokenStandard: "ERC20", contract: COIN, tokenId: null, amount: "250000" });
    expect(delegations[4]?.since.blockNumber).toBeLessThan(delegations[3]?.since.blockNumber ?? 0);
  });

  test("lists a wallet's delegation to itself as incoming only", async () => {
    const own = (page: ListPageJson) => page.delegations.filter(({ from, to }) => from === to).length;
    expect(own(await list(OTHER, "in"))).toBe(1);
    expect(own(await list(OTHER, "out"))).toBe(0);
  });

  test("returns exact token ids, and an empty list for a wallet without delegations", async () => {
    const { delegations } = await list(OTHER, "out");
    expect(delegations.map(({ tokenId }) => tokenId)).toContain(MAX);
    expect(await list(STRANGER, "in")).toMatchObject({ delegations: [], next: null });
  });

  test.for([1, 2, 3, 50])("with limit=%i comes in pages that make up the whole", async (limit) => {
    for (const wallet of [VAULT, HOT, OTHER, GONE]) {
      for (const direction of ["in", "out"] as const) {
        const whole = await list(wallet, direction, "&chainId=137");
        const path = `/explorer/delegations/${wallet}?direction=${direction}&chainId=137&limit=${limit}`;
        const pages = await readAllPages<ListPageJson>(ask, path);
        expect(pages.flatMap(({ delegations }) => delegations)).toEqual(whole.delegations);
        for (const { delegations } of pages) expect(delegations.length).toBeLessThanOrEqual(limit);
      }
    }
  });
});

describe("/explorer/history", () => {
  const history = (wallet: string, more = "") => ask<HistoryPageJson>(`/explorer/history/${wallet}?limit=50${more}`);
  const story = ({ changes }: HistoryPageJson) =>
    changes.map(({ kind, direction, registry, event }) => [kind, direction, registry, event].join(" "));

  test("lists made, changed and revoked delegations, newest first", async () => {
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
    const change = { id: expect.stringMatching(/^\d+-\d+-0$/), kind: "made", direction: "in", event: "DelegateERC721" };
    const token = { ...NO_TOKEN, registry: "v2", type: "TOKEN", tokenStandard: "ERC721", tokenId: "8520" };
    expect(changes.at(-1)).toEqual({ ...change, ...token, from: VAULT, to: GUEST, contract: NFT, ...PLACE });
  });

  test("names the revoked delegate to both wallets when the v1 event does not", async () => {
    const ofSafe = (await history(SAFE)).changes.filter(({ kind }) => kind === "revoked");
    expect(ofSafe.map(({ to, direction }) => [to, direction])).toContainEqual([GONE, "out"]);
    const ofGone = (await history(GONE)).changes[0];
    expect(ofGone).toMatchObject({ kind: "revoked", from: SAFE, to: GONE, direction: "in" });
  });

  test("lists a revocation of all as one change per revoked delegation", async () => {
    const ended = (await history(OTHER)).changes.filter(({ event }) => event === "RevokeAllDelegates");
    expect(ended.map(({ kind, type, to }) => [kind, type, to])).toEqual([
      ["revoked", "TOKEN", HOT],
      ["revoked", "ALL", HOT],
    ]);
    expect(new Set(ended.map(({ transactionHash }) => transactionHash)).size).toBe(1);
  });

  test("lists a wallet's delegation to itself once", async () => {
    const own = (await history(OTHER)).changes.filter(({ from, to }) => from === to);
    expect(own).toMatchObject([{ kind: "made", direction: "in" }]);
  });

  test.for([1, 2, 3, 7])("with limit=%i comes in pages that make up the whole", async (limit) => {
    for (const wallet of [VAULT, OTHER, HOT, GONE, SAFE, STRANGER]) {
      const whole = await history(wallet, "&chainId=137");
      const pages = await readAllPages<HistoryPageJson>(ask, `/explorer/history/${wallet}?chainId=137&limit=${limit}`);
      expect(pages.flatMap(({ changes }) => changes)).toEqual(whole.changes);
      expect(new Set(whole.changes.map(({ id }) => id)).size).toBe(whole.changes.length);
    }
  });
});

describe("/explorer/explain", () => {
  const explain = (parameters: Record<string, string>) => ask<Explained>(`/explorer/explain?${query(parameters)}`);

  test("returns the check's answer, and every delegation that grants it on its own", async () => {
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
    // Without rights, a delegation with limited rights does not count.
    const { rights: _, ...withoutRights } = asked;
    expect((await explain({ ...withoutRights, type: "contract" })).grants).toMatchObject([{ type: "CONTRACT" }]);
    expect(await explain({ ...withoutRights, type: "all" })).toMatchObject({ answer: false, grants: [] });
  });

  test("returns the balance of each grant", async () => {
    const asked = { registry: "v2", type: "erc20", vault: VAULT, delegate: GUEST, contract: COIN };
    expect(await explain(asked)).toMatchObject({
      answer: "250000",
      grants: [{ tokenStandard: "ERC20", amount: "250000", gives: "250000" }],
    });
    expect(await explain({ ...asked, delegate: STRANGER })).toMatchObject({ answer: "0", grants: [] });
  });

  test.for((["v1", "v2"] as const).flatMap((registry) => CHECKS[registry].map((type) => [registry, type] as const)))(
    "agrees with the check %s %s",
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

describe("/explorer/networks", () => {
  const networksOf = async (asked: Api) =>
    ((await (await asked.get("/explorer/networks")).json()) as { networks: ExplorerNetwork[] }).networks;

  test("lists every network with a registry, its block explorer and its freshness", async () => {
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

  test("reports a network as behind when its newest block is too old", async () => {
    const strict = await startTestApi({ databaseUrl, env: { MAX_INDEX_LAG_SECONDS: "1" } });
    const isBehind = (network?: ExplorerNetwork) => network?.state === "behind";
    const ethereum = await waitUntil("Ethereum is behind", async () => (await networksOf(strict))[0], 60, isBehind);
    expect(ethereum?.reason).toMatch(/is indexed up to block/);
  });

  test("reports the progress of a network that is being indexed, whose history returns 503", async () => {
    const url = await createSampleDatabase();
    const database = await connectClient(url);
    await database.query("update indexer.shard set caught_up = false");
    await database.query(
      "update indexer.chain set start_number = 1000, reached_number = 1750, newest_number = 2000 where chain_id = 1",
    );
    const started = await startTestApi({ databaseUrl: url });
    const [ethereum] = await networksOf(started);
    expect(ethereum).toMatchObject({
      state: "indexing",
      indexedBlock: null,
      progress: { startBlock: 1000, reachedBlock: 1750, newestBlock: 2000, share: 0.75 },
    });
    const refused = await started.get(`/explorer/history/${VAULT}`);
    expect(refused.status).toBe(503);
    expect(((await refused.json()) as { type: string }).type).toBe("/docs#problem-not-indexed");

    // An indexer of an older version lacks this column.
    await database.query("drop schema analytics cascade");
    await database.query("alter table indexer.chain drop column start_number");
    const readStartBlock = async () => (await networksOf(started))[0]?.progress?.startBlock;
    await waitUntil("the start block is 0", readStartBlock, 60, (block) => block === 0);
  });
});

describe("every response of the explorer", () => {
  const PATHS = [
    `/explorer/history/${VAULT}`,
    `/explorer/history/${STRANGER}`,
    `/explorer/delegations/${VAULT}?direction=in`,
    `/explorer/explain?${query({ registry: "v1", type: "all", from: VAULT, to: HOT })}`,
  ];

  test.for(PATHS)("names its block: %s", async (path) => {
    const response = await api.get(path);
    const { block } = (await response.json()) as ListPageJson;
    expect(response.headers.get("Content-Type")).toBe("application/json");
    expect(response.headers.get("Cache-Control")).toBe("no-store");
    expect(response.headers.get("X-Indexed-Block")).toBe(String(block.number));
    expect(response.headers.get("X-Indexed-Block-Timestamp")).toBe(String(block.timestamp));
    expect(response.headers.get("X-Finalized-Block")).toBe(String(block.finalized));
  });

  test("counts against the rate limit, except /explorer/networks, which needs no database", async () => {
    const limited = await startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "6" } });
    for (const path of [...PATHS, `/registry/v2/${VAULT}`, "/explorer/nothing"]) await limited.get(path);
    for (const path of PATHS) {
      const response = await limited.get(path);
      expect(response.status).toBe(429);
      expect(Number(response.headers.get("Retry-After"))).toBeGreaterThan(0);
    }
    expect((await limited.get("/explorer/networks")).status).toBe(200);
  });

  test("is not in the OpenAPI document", async () => {
    const { paths } = await ask<{ paths: object }>("/openapi.json");
    expect(Object.keys(paths).filter((path) => path.startsWith("/explorer"))).toEqual([]);
  });
});

test("the explorer returns 400 with every bad parameter", async () => {
  const cursor = (await ask<HistoryPageJson>(`/explorer/history/${VAULT}?limit=1`)).next;
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

test("/explorer/history returns 503 for an older index without was_active", async () => {
  const url = await createSampleDatabase();
  const database = await connectClient(url);
  await hideLogColumn(database, "was_active");
  const older = await startTestApi({ databaseUrl: url, env: FRESH_FOR_A_DAY });
  const refused = await older.get(`/explorer/history/${VAULT}`);
  expect([refused.status, await refused.json()]).toMatchObject([503, { type: "/docs#problem-not-indexed" }]);
  expect((await older.get(`/explorer/delegations/${VAULT}?direction=in`)).status).toBe(200);
});
