import type pg from "pg";
import { maxUint256, zeroHash } from "viem";
import { describe, expect } from "vitest";
import { AIRDROP, type Api, COIN, FRIEND, GONE, GUEST, HOT, NFT, OTHER, SAFE, VAULT } from "../../support/api.ts";
import { startChangedSamples } from "../../support/index-copy.ts";
import { test } from "../../support/test.ts";
import {
  askWallet,
  type Delegates,
  type Delegations,
  type History,
  readWalletPages,
  setFinalBlock,
  type Vaults,
} from "../../support/wallets.ts";

// Over the sandbox's samples: local/samples.ts lists their delegations, the same on Ethereum and on Polygon.

const STRANGER = `0x${"12".repeat(20)}`;
const MAX = String(maxUint256);

const vaultsOf = async (api: Api, wallet: string, query = "") => {
  const { vaults } = await askWallet<Vaults>(api, `${wallet}/vaults?${query}`);
  return vaults.map(({ chainId, vault, amount, delegations }) => [
    chainId,
    vault,
    amount,
    delegations.map(({ registry, type }) => `${registry} ${type}`).join(),
  ]);
};

describe("/wallets/{wallet}/vaults", () => {
  test("lists each vault once for each network, with every delegation that grants it", async ({ samples }) => {
    const page = await askWallet<Vaults>(samples, `${HOT.toLowerCase()}/vaults`);
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

  const ofNft = `contract=${NFT}`;
  const token7 = `check=erc1155&${ofNft}&tokenId=7`;

  test.for<[what: string, wallet: string, query: string, ...vaults: [string, string | null, string][]]>([
    ["the whole wallet", FRIEND, ""],
    ["a contract", FRIEND, ofNft, [VAULT, null, "v2 CONTRACT,v1 CONTRACT"]],
    ["a token, by its contract", FRIEND, `${ofNft}&tokenId=1`, [VAULT, null, "v2 CONTRACT,v1 CONTRACT"]],
    ["a contract, not by one of its tokens", GUEST, ofNft],
    ["a token", GUEST, `${ofNft}&tokenId=8520`, [VAULT, null, "v2 TOKEN,v1 TOKEN"]],
    ["a token in hex", GUEST, `${ofNft}&tokenId=0x2148`, [VAULT, null, "v2 TOKEN,v1 TOKEN"]],
    ["token 0, which is a token", GUEST, `${ofNft}&tokenId=0`],
    ["a right", FRIEND, "rights=airdrop", [VAULT, null, "v2 ALL"]],
    ["a right or full rights", FRIEND, `${ofNft}&registry=v2&rights=${AIRDROP}`, [VAULT, null, "v2 ALL,v2 CONTRACT"]],
    ["another right", FRIEND, "rights=vote"],
    ["a balance", GUEST, `check=erc20&contract=${COIN}`, [VAULT, "250000", "v2 TOKEN"]],
    [
      "a balance, without bounds by the whole wallet",
      HOT,
      `check=erc20&contract=${COIN}`,
      [VAULT, MAX, "v2 ALL"],
      [OTHER, String(2n ** 200n), "v2 TOKEN"],
    ],
    ["a balance without its right", GUEST, token7],
    ["a balance with its right", GUEST, `${token7}&rights=airdrop`, [VAULT, "5", "v2 TOKEN"]],
    ["a token of any standard", GUEST, `${ofNft}&tokenId=7&rights=airdrop`, [VAULT, null, "v2 TOKEN"]],
    ["a token of another standard", GUEST, `check=erc721&${ofNft}&tokenId=7&rights=airdrop`],
    ["v2", HOT, "registry=v2", [VAULT, null, "v2 ALL"]],
    ["v1", HOT, "registry=v1", [VAULT, null, "v1 ALL"], [SAFE, null, "v1 ALL"]],
    ["one vault", HOT, `vault=${SAFE.toLowerCase()}`, [SAFE, null, "v1 ALL"]],
    ["a vault that is not one", HOT, `vault=${STRANGER}`],
  ])("lists the vaults for %s", async ([, wallet, query, ...vaults], { samples }) => {
    const of = (chainId: number) => vaults.map((vault) => [chainId, ...vault]);
    expect(await vaultsOf(samples, wallet, query)).toEqual([...of(1), ...of(137)]);
    expect(await vaultsOf(samples, wallet, `${query}&chainId=137`)).toEqual(of(137));
  });

  test("takes several networks, or all", async ({ samples }) => {
    expect(await vaultsOf(samples, HOT, "chainId=137&chainId=1&chainId=137")).toHaveLength(4);
    expect(await vaultsOf(samples, HOT, "chainId=all")).toHaveLength(4);
    expect(await vaultsOf(samples, STRANGER)).toEqual([]);
  });

  test("in pages", async ({ samples }) => {
    const path = `${HOT}/vaults?check=erc20&contract=${COIN}`;
    const rows = (await readWalletPages<Vaults>(samples, `${path}&limit=1`)).flatMap(({ vaults }) => vaults);
    expect(rows).toEqual((await askWallet<Vaults>(samples, path)).vaults);
    expect(rows).toHaveLength(4);
  });
});

test("/wallets/{wallet}/delegates lists who may act for a wallet", async ({ samples }) => {
  const delegatesOf = async (query: string) =>
    (await askWallet<Delegates>(samples, `${VAULT}/delegates?chainId=1${query}`)).delegates;
  const token = `&contract=${NFT}&tokenId=8520`;
  expect((await delegatesOf("")).map(({ delegate }) => delegate)).toEqual([HOT]);
  const ofToken = await delegatesOf(token);
  expect(ofToken.map(({ delegate }) => delegate)).toEqual([HOT, FRIEND, GUEST]);
  expect(await delegatesOf(`${token}&delegate=${GUEST}`)).toEqual(ofToken.slice(2));
});

describe("/wallets/{wallet}/delegations", () => {
  test("lists both registries, networks and directions, oldest first", async ({ samples }) => {
    const delegationsOf = async (path: string) => (await askWallet<Delegations>(samples, path)).delegations;
    const rows = await delegationsOf(`${OTHER}/delegations?chainId=1`);
    expect(
      rows.map(({ direction, type, tokenStandard, delegate }) => [direction, tokenStandard ?? type, delegate]),
    ).toEqual([
      ["incoming", "ALL", OTHER],
      ["outgoing", "ERC20", HOT],
      ["outgoing", "ERC721", HOT],
      ["outgoing", "CONTRACT", HOT],
    ]);
    const both = await delegationsOf(`${OTHER}/delegations`);
    expect(both.map(({ chainId }) => chainId)).toEqual([1, 1, 1, 1, 137, 137, 137, 137]);
    const outgoing = await delegationsOf(`${VAULT}/delegations?chainId=1&direction=outgoing&registry=v1`);
    expect(outgoing.map(({ type }) => type)).toEqual(["ALL", "CONTRACT", "TOKEN"]);
    const all = await delegationsOf(`${VAULT}/delegations?chainId=1`);
    expect(outgoing).toEqual(all.filter(({ registry }) => registry === "v1"));
  });

  test("in pages", async ({ samples }) => {
    const whole = await askWallet<Delegations>(samples, `${VAULT}/delegations`);
    const pages = await readWalletPages<Delegations>(samples, `${VAULT}/delegations?limit=4`);
    expect(pages.flatMap(({ delegations }) => delegations)).toEqual(whole.delegations);
    expect(pages.map(({ delegations }) => delegations.length)).toEqual([4, 4, 4, 4, 2]);
  });
});

describe("/wallets/{wallet}/history", () => {
  const changesOf = async (api: Api, path: string) => (await askWallet<History>(api, path)).changes;

  test("lists changes of all networks, the newest first", async ({ samples }) => {
    const changes = await changesOf(samples, `${GONE}/history?chainId=137`);
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
    const both = await changesOf(samples, `${GONE}/history`);
    expect(both).toHaveLength(20);
    const times = both.map(({ blockTimestamp }) => blockTimestamp);
    expect(times).toEqual(times.toSorted((a, b) => b - a));
  });

  test("names the revoked delegate to both wallets when the v1 event does not", async ({ samples }) => {
    const ofSafe = (await changesOf(samples, `${SAFE}/history?chainId=1`)).filter(({ kind }) => kind === "revoked");
    expect(ofSafe.map(({ delegate, direction }) => [delegate, direction])).toContainEqual([GONE, "outgoing"]);
    const [newest] = await changesOf(samples, `${GONE}/history?chainId=1`);
    expect(newest).toMatchObject({ kind: "revoked", vault: SAFE, delegate: GONE, direction: "incoming" });
  });

  test("lists a revocation of all as one change per delegation, and a delegation to itself once", async ({
    samples,
  }) => {
    const changes = await changesOf(samples, `${OTHER}/history?chainId=1`);
    const ended = changes.filter(({ event }) => event === "RevokeAllDelegates");
    expect(ended.map(({ kind, type, delegate }) => [kind, type, delegate])).toEqual([
      ["revoked", "TOKEN", HOT],
      ["revoked", "ALL", HOT],
    ]);
    expect(new Set(ended.map(({ transactionHash }) => transactionHash)).size).toBe(1);
    const own = changes.filter(({ vault, delegate }) => vault === delegate);
    expect(own).toMatchObject([{ kind: "made", direction: "incoming" }]);
  });

  test("in pages over several networks", async ({ samples }) => {
    const readAll = async (query: string) =>
      (await readWalletPages<History>(samples, `${VAULT}/history?${query}`)).flatMap(({ changes }) => changes);
    const whole = await changesOf(samples, `${VAULT}/history`);
    expect(await readAll("limit=3")).toEqual(whole);
    expect(new Set(whole.map(({ chainId }) => chainId))).toEqual(new Set([1, 137]));
    expect(await readAll("limit=3&registry=v1")).toEqual(whole.filter(({ registry }) => registry === "v1"));
  });
});

describe("at a past time or block", () => {
  test("each network answers for its last block up to the time", async ({ samples }) => {
    const { changes } = await askWallet<History>(samples, `${GONE}/history?registry=v2`);
    const made = changes.filter(({ kind, event }) => kind === "made" && event === "DelegateAll");
    expect(made).toHaveLength(2);
    for (const { chainId, blockNumber, blockTimestamp } of made) {
      const at = `registry=v2&chainId=${chainId}&timestamp=${blockTimestamp}`;
      const { vaults, blocks } = await askWallet<Vaults>(samples, `${GONE}/vaults?${at}`);
      expect(vaults).toMatchObject([{ chainId, vault: VAULT, delegations: [{ blockNumber, blockTimestamp }] }]);
      expect(blocks[chainId]).toMatchObject({ number: blockNumber, timestamp: blockTimestamp });
      expect(await vaultsOf(samples, GONE, `chainId=${chainId}&block=${blockNumber}`)).toHaveLength(1);
      expect(await vaultsOf(samples, GONE, `chainId=${chainId}&block=${blockNumber - 1}`)).toEqual([]);
    }
    const before = await askWallet<Vaults>(samples, `${GONE}/vaults?timestamp=1000000000`);
    expect(before).toMatchObject({
      vaults: [],
      blocks: { 1: { number: null, timestamp: null, final: expect.any(Boolean) } },
    });
    const at = "timestamp=1000000000";
    expect(await askWallet(samples, `${VAULT}/delegations?${at}`)).toMatchObject({ delegations: [] });
    expect(await askWallet(samples, `${VAULT}/history?${at}`)).toMatchObject({ changes: [] });
  });

  test("all pages of block=finalized are of the same blocks", async ({ samples }) => {
    const { database, schema, start } = await startChangedSamples((database, schema) =>
      setFinalBlock(database, schema, 5),
    );
    const { changes } = await askWallet<History>(samples, `${VAULT}/history?chainId=1&block=5`);
    for (const query of ["", "chainId=1&"]) {
      const path = `${VAULT}/history?${query}block=finalized&limit=1`;
      const first = await askWallet<History>(await start(), path);
      expect(first.blocks[1]).toMatchObject({ number: 5, final: true });
      await setFinalBlock(database, schema, 9);
      const later = await start();
      expect((await askWallet<History>(later, path)).blocks[1]).toMatchObject({ number: 9 });
      const second = await askWallet<History>(later, `${path}&cursor=${first.next}`);
      expect(second.blocks).toEqual(first.blocks);
      if (query !== "") expect([...first.changes, ...second.changes]).toEqual(changes.slice(0, 2));
      await setFinalBlock(database, schema, 5);
    }
  });

  test("the answer about one network names its block in the headers", async ({ samples }) => {
    const { headers } = await samples.get(`/wallets/${HOT}/vaults?chainId=1&block=9`);
    expect(headers.get("X-Answered-Block")).toBe("9");
    expect(headers.get("X-Answered-Block-Final")).toMatch(/^(true|false)$/);
    expect(headers.get("X-Indexed-Block")).toMatch(/^\d+$/);
    expect((await samples.get(`/wallets/${HOT}/vaults?chainId=1`)).headers.get("X-Answered-Block")).toBeNull();
    expect((await samples.get(`/wallets/${HOT}/vaults?block=finalized`)).headers.get("X-Indexed-Block")).toBeNull();
  });
});

type AddedChange = { stranger: number; registry: "v1" | "v2"; active: boolean; madeBlock: number };

/** Adds changes of delegations from strangers to a wallet, one in each block from 101 on: made or revoked, in a registry. */
const addChanges = async (database: pg.Client, schema: string, changes: readonly AddedChange[]) => {
  await database.query(
    `insert into ${schema}.delegation_change (chain_id, block_number, log_index, ordinal, vault,
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
  await database.query(`update ${schema}.indexed_block set number = 100000`);
};

const makeDelegations = (count: number, first = 0): AddedChange[] =>
  Array.from({ length: count }, (_, index) => {
    const stranger = first + index;
    return { stranger, registry: "v1", active: true, madeBlock: 101 + stranger };
  });

test("a page at a past block ends with the last change that it has read, listed if it is active", async () => {
  const { api } = await startChangedSamples((database, schema) =>
    // Strangers make delegations, and revoke all but the last one. Then comes one of v2 as the 200th change.
    addChanges(database, schema, [
      ...makeDelegations(100),
      ...makeDelegations(99).map((made) => ({ ...made, active: false })),
      { stranger: 999, registry: "v2", active: true, madeBlock: 300 },
      ...makeDelegations(3, 200),
    ]),
  );
  const path = `${STRANGER}/delegations?chainId=1&block=99999&limit=50`;
  const pages = await readWalletPages<Delegations>(api, path);
  expect(pages.length).toBeGreaterThan(1);
  const blocks = pages.flatMap(({ delegations }) => delegations.map(({ blockNumber }) => blockNumber));
  expect(blocks).toEqual([200, 300, 301, 302, 303]);
});

test("the history of one registry is complete, whatever the other one has", async () => {
  const { api } = await startChangedSamples((database, schema) =>
    addChanges(
      database,
      schema,
      makeDelegations(500).map((made) => ({ ...made, registry: made.stranger % 250 === 1 ? "v1" : "v2" })),
    ),
  );
  const pages = await readWalletPages<History>(api, `${STRANGER}/history?registry=v1`);
  expect(pages.length).toBeLessThanOrEqual(4);
  expect(pages.flatMap(({ changes }) => changes.map(({ blockNumber }) => blockNumber))).toEqual([352, 102]);
});
