import pg from "pg";
import { maxUint256, zeroHash } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { operations } from "../../client/src/openapi.ts";
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
import { hideLogColumn, readServedSchema } from "../support/index-copy.ts";
import { connectClient } from "../support/setup.ts";

// Over the sandbox's samples: local/samples.ts lists their delegations, the same on Ethereum and on Polygon.

const STRANGER = `0x${"12".repeat(20)}`;
const MAX = String(maxUint256);

let databaseUrl: string;
let api: Api;
beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
  api = await launchApi({ databaseUrl, env: FRESH_FOR_A_DAY });
});
afterAll(() => api?.stop());

type Body<Name extends keyof operations> = operations[Name] extends {
  responses: { 200: { content: { "application/json": infer Json } } };
}
  ? Json
  : never;
type Vaults = Body<"walletVaults">;
type Delegates = Body<"walletDelegates">;
type Delegations = Body<"walletDelegations">;
type History = Body<"walletHistory">;
type WalletPage = Pick<History, "blocks" | "unanswered" | "next">;

/** Reads all pages of a list, by their cursors. */
const readAllPages = async <Page extends WalletPage>(url: string): Promise<Page[]> => {
  const pages: Page[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const response = await fetch(next ? `${url}&cursor=${next}` : url);
    const page = (await response.json()) as Page;
    expect(response.status, url).toBe(200);
    expect(response.headers.get("Link")?.includes(`cursor=${page.next}`) ?? false, url).toBe(page.next !== null);
    pages.push(page);
    next = page.next;
  }
  return pages;
};

const ask = async <Content>(path: string, from: Pick<Api, "get"> = api): Promise<Content> => {
  const response = await from.get(`/wallets/${path}`);
  const body = await response.text();
  expect(response.status, body).toBe(200);
  return JSON.parse(body);
};

const askProblem = async (path: string, from: Pick<Api, "get"> = api) => {
  const response = await from.get(`/wallets/${path}`);
  const { detail, errors } = (await response.json()) as { detail: string; errors?: { parameter: string }[] };
  return { status: response.status, detail, errors: errors?.map(({ parameter }) => parameter) };
};

const vaultsOf = async (wallet: string, query = "") => {
  const { vaults } = await ask<Vaults>(`${wallet}/vaults?${query}`);
  return vaults.map(({ chainId, vault, amount, delegations }) => [
    chainId,
    vault,
    amount,
    delegations.map(({ registry, type }) => `${registry} ${type}`).join(),
  ]);
};

describe("/wallets/{wallet}/vaults", () => {
  test("lists each vault once for each network, with every delegation that grants it", async () => {
    const page = await ask<Vaults>(`${HOT.toLowerCase()}/vaults`);
    expect(page).toMatchObject({ wallet: HOT, check: "all", unanswered: [], next: null });
    expect(Object.keys(page.blocks)).toEqual(["1", "137"]);
    expect(page.blocks[1]).toEqual({
      number: expect.any(Number),
      timestamp: expect.any(Number),
      final: expect.any(Boolean),
    });
    expect(page.vaults.map(({ chainId, vault }) => [chainId, vault])).toEqual([
      [1, VAULT],
      [1, SAFE],
      [137, VAULT],
      [137, SAFE],
    ]);
    expect(page.vaults[0]?.delegations).toEqual(
      ["v2", "v1"].map((registry) => ({
        chainId: 1,
        registry,
        type: "ALL",
        tokenStandard: null,
        vault: VAULT,
        delegate: HOT,
        contract: null,
        tokenId: null,
        rights: zeroHash,
        amount: null,
        blockNumber: expect.any(Number),
        blockTimestamp: expect.any(Number),
        transactionHash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      })),
    );
  });

  test("asks the check that the parameters name", async () => {
    const nft = `chainId=1&contract=${NFT}`;
    expect(await vaultsOf(FRIEND, "chainId=1")).toEqual([]);
    expect(await vaultsOf(FRIEND, nft)).toEqual([[1, VAULT, null, "v2 CONTRACT,v1 CONTRACT"]]);
    expect(await vaultsOf(FRIEND, `${nft}&tokenId=1`)).toEqual([[1, VAULT, null, "v2 CONTRACT,v1 CONTRACT"]]);
    expect(await vaultsOf(GUEST, nft)).toEqual([]);
    expect(await vaultsOf(GUEST, `${nft}&tokenId=8520`)).toEqual([[1, VAULT, null, "v2 TOKEN,v1 TOKEN"]]);
    expect(await vaultsOf(GUEST, `${nft}&tokenId=0x2148`)).toEqual([[1, VAULT, null, "v2 TOKEN,v1 TOKEN"]]);
    expect(await vaultsOf(GUEST, `${nft}&tokenId=0`), "token 0 is a token").toEqual([]);
  });

  test("counts full rights for any, and others only for themselves", async () => {
    const nft = `chainId=1&contract=${NFT}`;
    expect(await vaultsOf(FRIEND, "chainId=1&rights=airdrop")).toEqual([[1, VAULT, null, "v2 ALL"]]);
    expect(await vaultsOf(FRIEND, `${nft}&registry=v2&rights=${AIRDROP}`)).toEqual([
      [1, VAULT, null, "v2 ALL,v2 CONTRACT"],
    ]);
    expect(await vaultsOf(FRIEND, "chainId=1&rights=vote")).toEqual([]);
  });

  test("has the balance that the check grants", async () => {
    const balance = (wallet: string, query: string) => vaultsOf(wallet, `chainId=1&${query}`);
    expect(await balance(GUEST, `check=erc20&contract=${COIN}`)).toEqual([[1, VAULT, "250000", "v2 TOKEN"]]);
    expect(await balance(HOT, `check=erc20&contract=${COIN}`)).toEqual([
      [1, VAULT, MAX, "v2 ALL"],
      [1, OTHER, String(2n ** 200n), "v2 TOKEN"],
    ]);
    const token7 = `check=erc1155&contract=${NFT}&tokenId=7`;
    expect(await balance(GUEST, token7)).toEqual([]);
    expect(await balance(GUEST, `${token7}&rights=airdrop`)).toEqual([[1, VAULT, "5", "v2 TOKEN"]]);
    // A token of any standard, as the registry's check for that standard answers.
    expect(await balance(GUEST, `contract=${NFT}&tokenId=7&rights=airdrop`)).toEqual([[1, VAULT, null, "v2 TOKEN"]]);
    expect(await balance(GUEST, `check=erc721&contract=${NFT}&tokenId=7&rights=airdrop`)).toEqual([]);
  });

  test("of one registry, of several networks, and of one vault", async () => {
    expect(await vaultsOf(HOT, "registry=v2")).toEqual([
      [1, VAULT, null, "v2 ALL"],
      [137, VAULT, null, "v2 ALL"],
    ]);
    expect(await vaultsOf(HOT, "registry=v1&chainId=137")).toEqual([
      [137, VAULT, null, "v1 ALL"],
      [137, SAFE, null, "v1 ALL"],
    ]);
    expect(await vaultsOf(HOT, "chainId=137&chainId=1&chainId=137")).toHaveLength(4);
    expect(await vaultsOf(HOT, "chainId=all")).toHaveLength(4);
    expect(await vaultsOf(HOT, `vault=${SAFE.toLowerCase()}`)).toEqual([
      [1, SAFE, null, "v1 ALL"],
      [137, SAFE, null, "v1 ALL"],
    ]);
    expect(await vaultsOf(HOT, `vault=${STRANGER}`)).toEqual([]);
    expect(await vaultsOf(STRANGER)).toEqual([]);
  });

  test("in pages, whose cursors fit no other list", async () => {
    const path = `${HOT}/vaults?check=erc20&contract=${COIN}`;
    const pages = await readAllPages<Vaults>(`${api.url}/wallets/${path}&limit=1`);
    const rows = pages.flatMap(({ vaults }) => vaults);
    expect(rows).toEqual((await ask<Vaults>(path)).vaults);
    expect(rows).toHaveLength(4);
    const { next } = await ask<Vaults>(`${path}&limit=1`);
    for (const other of [`${GUEST}/vaults?check=erc20&contract=${COIN}`, `${path}&registry=v2`, `${HOT}/delegates?`]) {
      expect(await askProblem(`${other}&cursor=${next}`)).toMatchObject({ status: 400, errors: ["cursor"] });
    }
    expect(await askProblem(`${HOT}/vaults?cursor=abc`)).toMatchObject({ status: 400, errors: ["cursor"] });
    const bad = `${HOT}/vaults?check=erc20&contract=oops&cursor=${next}`;
    expect(await askProblem(bad), "the cursor is good").toMatchObject({ errors: ["contract"] });
  });
});

test("/wallets/{wallet}/delegates lists who may act for a wallet", async () => {
  const page = await ask<Delegates>(`${VAULT}/delegates?chainId=1`);
  expect(page.delegates.map(({ delegate }) => delegate)).toEqual([HOT]);
  const ofToken = await ask<Delegates>(`${VAULT}/delegates?chainId=1&contract=${NFT}&tokenId=8520`);
  expect(ofToken.delegates.map(({ delegate }) => delegate)).toEqual([HOT, FRIEND, GUEST]);
  const one = await ask<Delegates>(`${VAULT}/delegates?chainId=1&delegate=${GUEST}&contract=${NFT}&tokenId=8520`);
  expect(one.delegates).toEqual(ofToken.delegates.slice(2));
});

describe("/wallets/{wallet}/delegations", () => {
  test("lists both registries, networks and directions, oldest first", async () => {
    const { delegations } = await ask<Delegations>(`${OTHER}/delegations?chainId=1`);
    expect(
      delegations.map(({ direction, type, tokenStandard, delegate }) => [direction, tokenStandard ?? type, delegate]),
    ).toEqual([
      ["incoming", "ALL", OTHER],
      ["outgoing", "ERC20", HOT],
      ["outgoing", "ERC721", HOT],
      ["outgoing", "CONTRACT", HOT],
    ]);
    const both = await ask<Delegations>(`${OTHER}/delegations`);
    expect(both.delegations.map(({ chainId }) => chainId)).toEqual([1, 1, 1, 1, 137, 137, 137, 137]);
    const outgoing = await ask<Delegations>(`${VAULT}/delegations?chainId=1&direction=outgoing&registry=v1`);
    expect(outgoing.delegations.map(({ type }) => type)).toEqual(["ALL", "CONTRACT", "TOKEN"]);
    expect(outgoing.delegations).toEqual(
      (await ask<Delegations>(`${VAULT}/delegations?chainId=1`)).delegations.filter(
        ({ registry }) => registry === "v1",
      ),
    );
  });

  test("in pages", async () => {
    const whole = await ask<Delegations>(`${VAULT}/delegations`);
    const pages = await readAllPages<Delegations>(`${api.url}/wallets/${VAULT}/delegations?limit=4`);
    expect(pages.flatMap(({ delegations }) => delegations)).toEqual(whole.delegations);
    expect(pages.map(({ delegations }) => delegations.length)).toEqual([4, 4, 4, 4, 2]);
  });
});

describe("/wallets/{wallet}/history", () => {
  test("lists changes of all networks, the newest first", async () => {
    const { changes } = await ask<History>(`${GONE}/history?chainId=137`);
    expect(changes.map(({ registry, kind, event }) => [registry, kind, event])).toEqual([
      ["v1", "revoked", "RevokeDelegate"],
      ["v1", "made", "DelegateForAll"],
      ["v1", "revoked", "RevokeDelegate"],
      ["v1", "made", "DelegateForAll"],
      ["v1", "revoked", "DelegateForContract"],
      ["v1", "made", "DelegateForContract"],
      ["v2", "revoked", "DelegateERC1155"],
      ["v2", "made", "DelegateERC1155"],
      ["v2", "revoked", "DelegateAll"],
      ["v2", "made", "DelegateAll"],
    ]);
    const both = await ask<History>(`${GONE}/history`);
    expect(both.changes).toHaveLength(20);
    const times = both.changes.map(({ blockTimestamp }) => blockTimestamp);
    expect(times).toEqual(times.toSorted((a, b) => b - a));
  });

  test("names the revoked delegate to both wallets when the v1 event does not", async () => {
    const ofSafe = (await ask<History>(`${SAFE}/history?chainId=1`)).changes.filter(({ kind }) => kind === "revoked");
    expect(ofSafe.map(({ delegate, direction }) => [delegate, direction])).toContainEqual([GONE, "outgoing"]);
    const [newest] = (await ask<History>(`${GONE}/history?chainId=1`)).changes;
    expect(newest).toMatchObject({ kind: "revoked", vault: SAFE, delegate: GONE, direction: "incoming" });
  });

  test("lists a revocation of all as one change per revoked delegation, and a delegation to itself once", async () => {
    const { changes } = await ask<History>(`${OTHER}/history?chainId=1`);
    const ended = changes.filter(({ event }) => event === "RevokeAllDelegates");
    expect(ended.map(({ kind, type, delegate }) => [kind, type, delegate])).toEqual([
      ["revoked", "TOKEN", HOT],
      ["revoked", "ALL", HOT],
    ]);
    expect(new Set(ended.map(({ transactionHash }) => transactionHash)).size).toBe(1);
    const own = changes.filter(({ vault, delegate }) => vault === delegate);
    expect(own).toMatchObject([{ kind: "made", direction: "incoming" }]);
  });

  test("in pages over several networks", async () => {
    const whole = await ask<History>(`${VAULT}/history`);
    const pages = await readAllPages<History>(`${api.url}/wallets/${VAULT}/history?limit=3`);
    expect(pages.flatMap(({ changes }) => changes)).toEqual(whole.changes);
    expect(new Set(whole.changes.map(({ chainId }) => chainId))).toEqual(new Set([1, 137]));
    const v1 = await readAllPages<History>(`${api.url}/wallets/${VAULT}/history?limit=3&registry=v1`);
    expect(v1.flatMap(({ changes }) => changes)).toEqual(whole.changes.filter(({ registry }) => registry === "v1"));
  });
});

describe("at a past time or block", () => {
  test("each network answers for its last block up to the time", async () => {
    const { changes } = await ask<History>(`${GONE}/history?registry=v2`);
    const made = changes.filter(({ kind, event }) => kind === "made" && event === "DelegateAll");
    expect(made).toHaveLength(2);
    for (const { chainId, blockNumber, blockTimestamp } of made) {
      const at = `registry=v2&chainId=${chainId}&timestamp=${blockTimestamp}`;
      const { vaults, blocks } = await ask<Vaults>(`${GONE}/vaults?${at}`);
      expect(vaults).toMatchObject([{ chainId, vault: VAULT, delegations: [{ blockNumber, blockTimestamp }] }]);
      expect(blocks[chainId]).toMatchObject({ number: blockNumber, timestamp: blockTimestamp });
      expect(await vaultsOf(GONE, `chainId=${chainId}&block=${blockNumber}`)).toHaveLength(1);
      expect(await vaultsOf(GONE, `chainId=${chainId}&block=${blockNumber - 1}`)).toEqual([]);
    }
    const before = await ask<Vaults>(`${GONE}/vaults?timestamp=1000000000`);
    expect(before).toMatchObject({
      vaults: [],
      blocks: { 1: { number: null, timestamp: null, final: expect.any(Boolean) } },
    });
    expect(await ask<Delegations>(`${VAULT}/delegations?timestamp=1000000000`)).toMatchObject({ delegations: [] });
    expect(await ask<History>(`${VAULT}/history?timestamp=1000000000`)).toMatchObject({ changes: [] });
  });

  test("a time that is not indexed yet is a 503", async () => {
    const { blocks } = await ask<Vaults>(`${HOT}/vaults?chainId=1`);
    const time = blocks[1]?.timestamp;
    expect(await askProblem(`${HOT}/vaults?timestamp=${time}&chainId=1`)).toMatchObject({
      status: 503,
      detail: expect.stringMatching(/^Chain 1 \(Ethereum\) is indexed up to block \d+, of \d+, not yet beyond \d+\.$/),
    });
    expect((await askProblem(`${HOT}/vaults?block=999999&chainId=1`)).status).toBe(503);
  });
});

test.for([
  ["vaults?chainId=abc", ["chainId"]],
  ["vaults?chainId=all&chainId=1", ["chainId"]],
  ["vaults?chainId=5", ["chainId"]],
  ["vaults?block=5", ["block"]],
  ["vaults?minBlock=5&chainId=1&chainId=137", ["minBlock"]],
  ["vaults?chainId=1&block=5&timestamp=7", ["timestamp"]],
  ["vaults?timestamp=soon", ["timestamp"]],
  ["vaults?tokenId=1", ["contract"]],
  [`vaults?check=all&contract=${NFT}`, ["contract"]],
  [`vaults?check=erc20&contract=${NFT}&tokenId=1`, ["tokenId"]],
  [`vaults?check=erc20&contract=${NFT}&registry=v1`, ["check"]],
  ["vaults?check=some&registry=v3&limit=1001&partial=maybe", ["check", "registry", "partial", "limit"]],
  ["delegations?direction=up", ["direction"]],
] as const)("%s is refused", async ([path, errors]) => {
  expect(await askProblem(`${HOT}/${path}`)).toMatchObject({ status: 400, errors });
});

test("a network that cannot be answered for fails the request, or is named with partial=true", async () => {
  const own = await createSampleDatabase();
  const database = await connectClient(own);
  const schema = (await database.query("select schema from indexer.shard")).rows[0].schema;
  await database.query("set session_replication_role = replica");
  await database.query(`delete from ${schema}.indexed_block where chain_id = 137`);
  const half = await startTestApi({ databaseUrl: own, env: FRESH_FOR_A_DAY });

  for (const list of ["vaults", "delegates", "delegations", "history"]) {
    expect(await askProblem(`${HOT}/${list}`, half)).toEqual({
      status: 503,
      detail: expect.stringMatching(
        /^Chain 137 \(Polygon\) is still being indexed: .* With partial=true, the answer has/,
      ),
    });
    const page = await ask<WalletPage>(`${HOT}/${list}?partial=true`, half);
    expect(Object.keys(page.blocks)).toEqual(["1"]);
    expect(page.unanswered).toMatchObject([{ chainId: 137, problem: { status: 503, title: "Not indexed yet" } }]);
    expect((await askProblem(`${HOT}/${list}?partial=true&chainId=137`, half)).status, "no network is left").toBe(503);
    expect((await ask<WalletPage>(`${HOT}/${list}?chainId=1`, half)).unanswered).toEqual([]);
  }
  const { vaults } = await ask<Vaults>(`${HOT}/vaults?partial=true`, half);
  expect(vaults.map(({ chainId }) => chainId)).toEqual([1, 1]);
});

test("a network that an early page is without stays named on all pages", async () => {
  const own = await createSampleDatabase();
  const database = await connectClient(own);
  const schema = await readServedSchema(database);
  await database.query("set session_replication_role = replica");
  await database.query(`create table missing as select * from ${schema}.indexed_block where chain_id = 1`);
  await database.query(`delete from ${schema}.indexed_block where chain_id = 1`);
  const half = await startTestApi({ databaseUrl: own, env: FRESH_FOR_A_DAY });
  for (const list of ["vaults", "delegates", "delegations", "history"]) {
    const wallet = list === "vaults" ? HOT : VAULT;
    const { next } = await ask<WalletPage>(`${wallet}/${list}?partial=true&limit=1`, half);
    await database.query(`insert into ${schema}.indexed_block select * from missing`);
    const path = `${wallet}/${list}?limit=1&cursor=${next}`;
    const page = await ask<WalletPage>(`${path}&partial=true`, half);
    expect(Object.keys(page.blocks)).toEqual(["137"]);
    expect(page.unanswered).toMatchObject([
      { chainId: 1, problem: { status: 503, detail: expect.stringContaining("on an earlier page: start again") } },
    ]);
    expect((await askProblem(path, half)).status).toBe(503);
    await database.query(`delete from ${schema}.indexed_block where chain_id = 1`);
  }
});

/** Sets the newest final block of all chains. */
const setFinalBlock = (database: pg.Client, schema: string, block: number) =>
  database.query(
    `update ${schema}._ponder_checkpoint
     set finalized_checkpoint = overlay(finalized_checkpoint placing lpad($1::text, 16, '0') from 27 for 16)`,
    [block],
  );

test("all pages of block=finalized are of the same blocks", async () => {
  const own = await createSampleDatabase();
  const database = await connectClient(own);
  const schema = await readServedSchema(database);
  const finalize = (block: number) => setFinalBlock(database, schema, block);
  await finalize(5);
  const { changes } = await ask<History>(`${VAULT}/history?chainId=1&block=5`);
  for (const query of ["", "chainId=1&"]) {
    const started = await startTestApi({ databaseUrl: own, env: FRESH_FOR_A_DAY });
    const path = `${VAULT}/history?${query}block=finalized&limit=1`;
    const first = await ask<History>(path, started);
    expect(first.blocks[1]).toMatchObject({ number: 5, final: true });
    await finalize(9);
    const other = await startTestApi({ databaseUrl: own, env: FRESH_FOR_A_DAY });
    expect((await ask<History>(path, other)).blocks[1]).toMatchObject({ number: 9 });
    const second = await ask<History>(`${path}&cursor=${first.next}`, other);
    expect(second.blocks).toEqual(first.blocks);
    if (query !== "") expect([...first.changes, ...second.changes]).toEqual(changes.slice(0, 2));
    await finalize(5);
  }
});

/** Replaces parts of a cursor's text: the name of its list, a position, blocks by chain, and missing chains. */
const forge = (cursor: string | null, parts: { position?: string; blocks?: string; missing?: string }): string => {
  const [list, position, blocks, missing] = Buffer.from(cursor ?? "", "base64url")
    .toString()
    .split("~");
  const forged = { position, blocks, missing, ...parts };
  return Buffer.from([list, forged.position, forged.blocks, forged.missing].join("~")).toString("base64url");
};

describe("a forged cursor", () => {
  const FINAL = 40;
  let ofFinal: Api;
  beforeAll(async () => {
    const own = await createSampleDatabase();
    const database = new pg.Client(own);
    await database.connect();
    await setFinalBlock(database, await readServedSchema(database), FINAL);
    await database.end();
    ofFinal = await launchApi({ databaseUrl: own, env: FRESH_FOR_A_DAY });
  });
  afterAll(() => ofFinal?.stop());

  const LISTS = ["vaults", "delegates", "delegations", "history"] as const;
  const start = (list: string, chainId: number) =>
    list === "history" ? `1600000000.${chainId}.0.0.0` : `${chainId}.0.0.0`;
  const send = async (list: string, query: string, parts: Parameters<typeof forge>[1]) => {
    const path = `${list === "vaults" ? HOT : VAULT}/${list}?limit=1&partial=true&contract=${NFT}&tokenId=8520&${query}`;
    const { next } = await ask<WalletPage>(path, ofFinal);
    if (next === null) return expect.fail(`${path} has no second page.`);
    return askProblem(`${path}&cursor=${forge(next, { position: start(list, 1), ...parts })}`, ofFinal);
  };
  const refused = {
    status: 400,
    detail: "cursor is not from this list: start again without it.",
    errors: ["cursor"],
  };

  test.for(LISTS)("of %s names no block unless the list is of final blocks", async (list) => {
    for (const query of ["", "chainId=1", `chainId=1&block=${FINAL}`, "chainId=1&minBlock=1"]) {
      expect(await send(list, query, { blocks: "137.0" }), query).toEqual(refused);
      expect(await send(list, query, { blocks: "1.0" }), query).toEqual(refused);
    }
  });

  test.for(LISTS)("of %s names no network but those of the question", async (list) => {
    for (const [query, parts] of [
      ["block=finalized", { blocks: "1.0.5.0" }],
      ["block=finalized&chainId=1", { blocks: "1.0.137.0" }],
      ["", { missing: "5" }],
      ["", { missing: "100000000000000001" }],
      ["chainId=1", { missing: "137" }],
      ["chainId=1", { missing: "0" }],
      ["", { position: start(list, 5) }],
      ["chainId=1", { position: start(list, 137) }],
    ] as const) {
      expect(await send(list, query, parts), `${query} ${JSON.stringify(parts)}`).toEqual(refused);
    }
  });

  test.for(LISTS)("of %s has a position with the parts of this list, in plain digits", async (list) => {
    const good = start(list, 1);
    const ofOther = start(list === "history" ? "vaults" : "history", 1);
    for (const position of [ofOther, "1", "", `0${good}`, good.replace(/0$/, "-1"), `${good}.0.0`]) {
      expect(await send(list, "", { position }), position).toEqual(refused);
    }
    expect(await send(list, "block=finalized", { blocks: "01.0" })).toEqual(refused);
    expect(await send(list, "block=finalized", { blocks: "1" })).toEqual(refused);
  });

  test.for(LISTS)("of %s does not make a block final", async (list) => {
    const newest = Number((await ofFinal.get(`/registry/v2/${VAULT}`)).headers.get("X-Indexed-Block"));
    const ofBlock = (block: number) => send(list, "block=finalized&chainId=1", { blocks: `1.${block}` });
    expect(await ofBlock(FINAL + 1)).toEqual({
      status: 503,
      detail: `Chain 1 (Ethereum) is final up to block ${FINAL}, not yet up to block ${FINAL + 1}.`,
    });
    expect(await ofBlock(newest + 1)).toEqual({
      status: 503,
      detail: `Chain 1 (Ethereum) is indexed up to block ${newest}, not yet up to block ${newest + 1}.`,
    });
  });
});

test("a network that an early page had and that is not known any more is a 503 while its shard has not started", async () => {
  const { next } = await ask<History>(`${VAULT}/history?limit=1`);
  const env = { ...FRESH_FOR_A_DAY, INDEX_SCHEMAS: "registry,later" };
  const starting = await startTestApi({ databaseUrl, env });
  const path = `${VAULT}/history?limit=1&cursor=${forge(next, { position: "1600000000.10.0.0.0" })}`;
  expect(await askProblem(path, starting)).toMatchObject({
    status: 503,
    detail: expect.stringContaining('The chains of shard "later" are not known: it has not started.'),
  });
  expect(await askProblem(path)).toMatchObject({ status: 400, errors: ["cursor"] });
});

/** Adds changes of delegations from strangers to a wallet, one in each block from 101 on: made or revoked, in a registry. */
const addChanges = async (
  url: string,
  changes: readonly { stranger: number; registry: "v1" | "v2"; active: boolean; madeBlock: number }[],
) => {
  const database = await connectClient(url);
  await database.query("set session_replication_role = replica");
  await database.query(
    `insert into ${await readServedSchema(database)}.delegation_change (chain_id, block_number, log_index, ordinal, vault,
       delegate, registry, type, contract, token_id, rights, active, was_active, amount, event, made_block, made_log_index,
       block_timestamp, transaction_hash)
     select 1, 100 + number, 0, 0, '0x' || lpad(stranger::text, 40, '0'), $1, registry, 'ALL', '0x' || repeat('0', 40), 0,
       '0x' || repeat('0', 64), active, not active, 0, 'DelegateAll', made, 0, 1600000000 + number, '0x' || repeat('a', 64)
     from unnest($2::int[], $3::text[], $4::boolean[], $5::int[]) with ordinality as c (stranger, registry, active, made, number)`,
    [
      STRANGER,
      changes.map(({ stranger }) => stranger),
      changes.map(({ registry }) => registry),
      changes.map(({ active }) => active),
      changes.map(({ madeBlock }) => madeBlock),
    ],
  );
  await database.query(`update ${await readServedSchema(database)}.indexed_block set number = 100000`);
};

test("a page at a past block ends with the last change that it has read, listed if it is active", async () => {
  const own = await createSampleDatabase();
  const made = (stranger: number, registry: "v1" | "v2") =>
    ({ stranger, registry, active: true, madeBlock: 101 + stranger }) as const;
  // Strangers make delegations, and revoke all but the last one. Then comes one of v2 as the 200th change.
  await addChanges(own, [
    ...Array.from({ length: 100 }, (_, stranger) => made(stranger, "v1")),
    ...Array.from({ length: 99 }, (_, stranger) => ({ ...made(stranger, "v1"), active: false })),
    { stranger: 999, registry: "v2", active: true, madeBlock: 300 },
    ...Array.from(
      { length: 3 },
      (_, index) => ({ stranger: 1000 + index, registry: "v1", active: true, madeBlock: 301 + index }) as const,
    ),
  ]);
  const grown = await startTestApi({ databaseUrl: own, env: FRESH_FOR_A_DAY });
  const pages = await readAllPages<Delegations>(
    `${grown.url}/wallets/${STRANGER}/delegations?chainId=1&block=99999&limit=50`,
  );
  expect(pages.length).toBeGreaterThan(1);
  const blocks = pages.flatMap(({ delegations }) => delegations.map(({ blockNumber }) => blockNumber));
  expect(blocks).toEqual([200, 300, 301, 302, 303]);
});

test("the history of one registry is complete, whatever the other one has", async () => {
  const own = await createSampleDatabase();
  await addChanges(
    own,
    Array.from({ length: 500 }, (_, stranger) => ({
      stranger,
      registry: stranger % 250 === 1 ? "v1" : "v2",
      active: true,
      madeBlock: 101 + stranger,
    })),
  );
  const grown = await startTestApi({ databaseUrl: own, env: FRESH_FOR_A_DAY });
  const pages = await readAllPages<History>(`${grown.url}/wallets/${STRANGER}/history?registry=v1`);
  expect(pages.length).toBeLessThanOrEqual(4);
  expect(pages.flatMap(({ changes }) => changes.map(({ blockNumber }) => blockNumber))).toEqual([352, 102]);
});

test("the answer about one network names its block in the headers", async () => {
  const { headers } = await api.get(`/wallets/${HOT}/vaults?chainId=1&block=9`);
  expect(headers.get("X-Answered-Block")).toBe("9");
  expect(headers.get("X-Answered-Block-Final")).toMatch(/^(true|false)$/);
  expect(headers.get("X-Indexed-Block")).toMatch(/^\d+$/);
  expect((await api.get(`/wallets/${HOT}/vaults?chainId=1`)).headers.get("X-Answered-Block")).toBeNull();
  expect((await api.get(`/wallets/${HOT}/vaults?block=finalized`)).headers.get("X-Indexed-Block")).toBeNull();
});

test("each request counts against the limit, and a key lifts it", async () => {
  const limited = await startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "1" } });
  expect((await limited.get(`/wallets/${HOT}/vaults`)).headers.get("RateLimit")).toMatch(/r=0/);
  expect((await limited.get(`/wallets/${HOT}/history`)).status).toBe(429);
  const unknown = await limited.get(`/wallets/${HOT}/history`, { headers: { "X-API-KEY": "nothing" } });
  expect([401, 429]).toContain(unknown.status);
});

test.for(["was_active", "made_block"])("an older index without %s is a 503, not a short list", async (column) => {
  const url = await createSampleDatabase();
  await hideLogColumn(await connectClient(url), column);
  const older = await startTestApi({ databaseUrl: url, env: FRESH_FOR_A_DAY });
  expect(await askProblem(`${VAULT}/history`, older)).toMatchObject({ status: 503 });
  expect(await askProblem(`${VAULT}/vaults?timestamp=1000000000`, older)).toMatchObject({ status: 503 });
  expect((await older.get(`/wallets/${VAULT}/vaults`)).status).toBe(200);
});
