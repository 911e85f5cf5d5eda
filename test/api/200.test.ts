import { maxUint256 } from "viem";
import { describe, expect } from "vitest";
import { tokenId } from "../../api/contract/parameters.ts";
import { AIRDROP, type Api, COIN, FRIEND, GONE, GUEST, HOT, NFT, OTHER, SAFE, VAULT } from "../support/api.ts";
import { startChangedSamples } from "../support/index-copy.ts";
import { test } from "../support/test.ts";

// Over the sandbox's samples: local/samples.ts lists their delegations.

/** Returns the exact body of a 200. */
const ask = async (api: Api, path: string): Promise<string> => {
  const response = await api.get(path);
  const body = await response.text();
  expect(response.status, body).toBe(200);
  return body;
};

const MAX = String(maxUint256);
const NAMES: Record<string, string> = {
  ...{ HOT, VAULT, FRIEND, GUEST, GONE, OTHER, SAFE, NFT, COIN, AIRDROP, MAX },
  NONE: `0x${"0".repeat(64)}`,
  VOTE: "0x766f746500000000000000000000000000000000000000000000000000000000",
  AIRDROP_IN_CAPITALS: AIRDROP.toUpperCase().replace("0X", "0x"),
  BELOW_MAX: String(maxUint256 - 1n),
  MAX_IN_HEX: `0x${"f".repeat(64)}`,
  HUGE: String(2n ** 200n),
};

/** Replaces names by their values. */
const fill = (text: string) => text.replace(/\b[A-Z_]{3,}\b/g, (name) => NAMES[name] ?? name);

describe("a check returns the registry's answer for", () => {
  test.for<[check: string, question: string, answer: string]>([
    ["v1/check/all", "delegate=HOT vault=VAULT", "true"],
    ["v1/check/all", "delegate=HOT vault=SAFE", "true"],
    ["v1/check/all", "delegate=VAULT vault=HOT", "false"],
    ["v1/check/all", "delegate=FRIEND vault=VAULT", "false"],
    ["v1/check/all", "delegate=GONE vault=VAULT", "false"],
    ["v1/check/all", "delegate=GONE vault=SAFE", "false"],
    ["v1/check/all", "delegate=HOT vault=OTHER", "false"],
    ["v1/check/contract", "delegate=HOT vault=VAULT contract=COIN", "true"],
    ["v1/check/contract", "delegate=FRIEND vault=VAULT contract=NFT", "true"],
    ["v1/check/contract", "delegate=FRIEND vault=VAULT contract=COIN", "false"],
    ["v1/check/contract", "delegate=GUEST vault=VAULT contract=NFT", "false"],
    ["v1/check/token", "delegate=HOT vault=VAULT contract=COIN tokenId=1", "true"],
    ["v1/check/token", "delegate=FRIEND vault=VAULT contract=NFT tokenId=1", "true"],
    ["v1/check/token", "delegate=GUEST vault=VAULT contract=NFT tokenId=8520", "true"],
    ["v1/check/token", "delegate=GUEST vault=VAULT contract=NFT tokenId=0x2148", "true"],
    ["v1/check/token", "delegate=GUEST vault=VAULT contract=NFT tokenId=8521", "false"],
    ["v1/check/token", "delegate=GUEST vault=VAULT contract=COIN tokenId=8520", "false"],

    ["v2/check/all", "to=HOT from=VAULT", "true"],
    ["v2/check/all", "to=VAULT from=HOT", "false"],
    ["v2/check/all", "to=HOT from=VAULT rights=AIRDROP", "true"],
    ["v2/check/all", "to=HOT from=VAULT rights=0x", "true"],
    ["v2/check/all", "to=FRIEND from=VAULT", "false"],
    ["v2/check/all", "to=FRIEND from=VAULT rights=AIRDROP", "true"],
    ["v2/check/all", "to=FRIEND from=VAULT rights=AIRDROP_IN_CAPITALS", "true"],
    ["v2/check/all", "to=FRIEND from=VAULT rights=airdrop", "true"],
    ["v2/check/all", "to=FRIEND from=VAULT rights=airdrops", "false"],
    ["v2/check/all", "to=FRIEND from=VAULT rights=VOTE", "false"],
    ["v2/check/all", "to=FRIEND from=VAULT rights=", "false"],
    ["v2/check/all", "to=FRIEND from=VAULT rights=0x", "false"],
    ["v2/check/all", "to=FRIEND from=VAULT rights=NONE", "false"],
    ["v2/check/all", "to=OTHER from=OTHER", "true"],
    ["v2/check/all", "to=GONE from=VAULT", "false"],
    ["v2/check/contract", "to=HOT from=VAULT contract=COIN", "true"],
    ["v2/check/contract", "to=FRIEND from=VAULT contract=NFT", "true"],
    ["v2/check/contract", "to=FRIEND from=VAULT contract=NFT rights=VOTE", "true"],
    ["v2/check/contract", "to=FRIEND from=VAULT contract=COIN", "false"],
    ["v2/check/contract", "to=FRIEND from=VAULT contract=COIN rights=AIRDROP", "true"],
    ["v2/check/contract", "to=HOT from=OTHER contract=COIN", "false"],
    ["v2/check/contract", "to=HOT from=OTHER contract=COIN rights=AIRDROP", "true"],
    ["v2/check/erc721", "delegate=HOT vault=VAULT contract=NFT tokenId=1", "true"],
    ["v2/check/erc721", "delegate=FRIEND vault=VAULT contract=NFT tokenId=1", "true"],
    ["v2/check/erc721", "delegate=GUEST vault=VAULT contract=NFT tokenId=8520", "true"],
    ["v2/check/erc721", "delegate=GUEST vault=VAULT contract=NFT tokenId=7", "false"],
    ["v2/check/erc721", "delegate=GUEST vault=VAULT contract=NFT tokenId=7 rights=AIRDROP", "false"],
    ["v2/check/erc721", "delegate=VAULT vault=GUEST contract=NFT tokenId=8520", "false"],
    ["v2/check/erc721", "delegate=HOT vault=OTHER contract=NFT tokenId=MAX", "true"],
    ["v2/check/erc721", "delegate=HOT vault=OTHER contract=NFT tokenId=MAX_IN_HEX", "true"],
    ["v2/check/erc721", "delegate=HOT vault=OTHER contract=NFT tokenId=BELOW_MAX", "false"],
    ["v2/check/erc20", "delegate=GUEST vault=VAULT contract=COIN", "250000"],
    ["v2/check/erc20", "delegate=GUEST vault=VAULT contract=COIN rights=VOTE", "250000"],
    ["v2/check/erc20", "delegate=GUEST vault=VAULT contract=NFT", "0"],
    ["v2/check/erc20", "delegate=GONE vault=OTHER contract=COIN numbers=string", '"0"'],
    ["v2/check/erc20", "delegate=HOT vault=OTHER contract=COIN", "HUGE"],
    ["v2/check/erc20", "delegate=HOT vault=OTHER contract=COIN numbers=number", "HUGE"],
    ["v2/check/erc20", "delegate=HOT vault=OTHER contract=COIN numbers=string", '"HUGE"'],
    ["v2/check/erc20", "delegate=HOT vault=OTHER contract=COIN rights=AIRDROP", "MAX"],
    ["v2/check/erc20", "delegate=HOT vault=VAULT contract=COIN", "MAX"],
    ["v2/check/erc1155", "delegate=GUEST vault=VAULT contract=NFT tokenId=7", "0"],
    ["v2/check/erc1155", "delegate=GUEST vault=VAULT contract=NFT tokenId=7 rights=AIRDROP", "5"],
    ["v2/check/erc1155", "delegate=GUEST vault=VAULT contract=NFT tokenId=8 rights=AIRDROP", "0"],
    ["v2/check/erc1155", "delegate=FRIEND vault=VAULT contract=NFT tokenId=8", "MAX"],
    ["v2/check/erc1155", "delegate=HOT vault=VAULT contract=COIN tokenId=0 numbers=string", '"MAX"'],
    ["v2/check/erc1155", "delegate=GONE vault=VAULT contract=NFT tokenId=7", "0"],
    // `numbers` does not change a boolean.
    ["v2/check/all", "to=HOT from=VAULT numbers=string", "true"],
  ])("%s %s: %s", async ([check, question, answer], { samples }) => {
    const path = `/registry/${check}?${fill(question).replaceAll(" ", "&")}`;
    expect(await ask(samples, path)).toBe(fill(answer));
    expect(await ask(samples, `${path}&chainId=137`)).toBe(fill(answer));
  });
});

test("a delegation for the contract zero is not one for the whole wallet", async () => {
  const zero = `0x${"0".repeat(40)}`;
  const { api } = await startChangedSamples(async (database, schema) => {
    for (const table of ["delegation_v1", "delegation_v2"]) {
      await database.query(`update ${schema}.${table} set contract = $1 where type = 'CONTRACT' and delegate = $2`, [
        zero,
        FRIEND.toLowerCase(),
      ]);
    }
  });
  for (const version of ["v1", "v2"]) {
    const wallets = `delegate=${FRIEND}&vault=${VAULT}`;
    expect(await ask(api, `/registry/${version}/check/contract?${wallets}&contract=${zero}`), version).toBe("true");
    expect(await ask(api, `/registry/${version}/check/all?${wallets}`), version).toBe("false");
  }
});

test.for(["9007199254740993", String(2n ** 255n + 1n), MAX])("tokenId.parse() keeps all digits of %s", (digits) => {
  const inHex = `0x${BigInt(digits).toString(16)}`;
  expect([tokenId.parse(digits), tokenId.parse(inHex)]).toEqual([digits, digits]);
});

test.for([
  ["all", "true"],
  ["contract", "true"],
  ["erc721", "true"],
  ["erc1155", MAX],
  ["erc20", MAX],
])("v2/check/%s accepts both names of each wallet, in any letter case", async ([check, answer], { samples }) => {
  const spellings = (address: string) => [
    address,
    address.toLowerCase(),
    address.toUpperCase(),
    `0x${address.slice(2).toUpperCase()}`,
  ];
  const wallets = [
    ...spellings(HOT).flatMap((hot) => spellings(VAULT).map((vault) => `to=${hot}&from=${vault}`)),
    `delegate=${HOT}&vault=${VAULT}`,
    `to=${HOT}&vault=${VAULT}`,
    `delegate=${HOT}&from=${VAULT}`,
    `to=${HOT}&delegate=${HOT.toLowerCase()}&from=${VAULT}&vault=${VAULT.toUpperCase()}`,
  ];
  const paths = wallets.flatMap((pair) =>
    spellings(NFT).map((contract) => `/registry/v2/check/${check}?${pair}&contract=${contract}&tokenId=1`),
  );
  expect(new Set(await Promise.all(paths.map((path) => ask(samples, path))))).toEqual(new Set([answer]));
});

describe("a list", () => {
  /** Builds a list from rows of `type from to contract tokenId`, with the field names of the version. */
  const list = (version: "v1" | "v2", rows: string[]) =>
    `[${rows
      .map((row) => {
        const [type, vault, delegate, contract, tokenId] = fill(row).split(" ");
        const wallets =
          version === "v1" ? `"delegate":"${delegate}","vault":"${vault}"` : `"from":"${vault}","to":"${delegate}"`;
        const shown = contract === "null" ? "null" : `"${contract}"`;
        return `{"type":"${type}",${wallets},"contract":${shown},"tokenId":${tokenId}}`;
      })
      .join()}]`;

  test.for<[version: "v1" | "v2", wallet: string, rows: string[]]>([
    ["v1", HOT, ["ALL VAULT HOT null null", "ALL SAFE HOT null null"]],
    ["v1", VAULT, ["ALL VAULT HOT null null", "CONTRACT VAULT FRIEND NFT null", "TOKEN VAULT GUEST NFT 8520"]],
    [
      "v2",
      VAULT,
      [
        "ALL VAULT HOT null null",
        "ALL VAULT FRIEND null null",
        "CONTRACT VAULT FRIEND NFT null",
        "TOKEN VAULT GUEST NFT 8520",
        "TOKEN VAULT GUEST COIN null",
        "TOKEN VAULT GUEST NFT 7",
      ],
    ],
    // A delegation to itself is listed once. Incoming delegations come first.
    [
      "v2",
      OTHER,
      [
        "ALL OTHER OTHER null null",
        "TOKEN OTHER HOT COIN null",
        "TOKEN OTHER HOT NFT MAX",
        "CONTRACT OTHER HOT COIN null",
      ],
    ],
    ["v1", GONE, []],
    ["v2", GONE, []],
    ["v1", `0x${"12".repeat(20)}`, []],
    ["v2", `0x${"0".repeat(39)}1`, []],
  ])(
    "%s of %s returns its rows byte for byte, in order, for any spelling of the path",
    async ([version, wallet, rows], { samples }) => {
      const expected = list(version, rows);
      const encoded = [...wallet].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("");
      for (const spelled of [wallet, wallet.toLowerCase(), wallet.toUpperCase(), `${wallet}/`, encoded]) {
        expect(await ask(samples, `/registry/${version}/${spelled}`)).toBe(expected);
        expect(await ask(samples, `/registry/${version}/${spelled}?chainId=137&details=false`)).toBe(expected);
      }
    },
  );

  test("with details=true returns all fields in the documented order", async ({ samples }) => {
    const event = {
      blockNumber: expect.any(Number),
      blockTimestamp: expect.any(Number),
      transactionHash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
    };
    const [first, , , , coin, token] = JSON.parse(await ask(samples, `/registry/v2/${VAULT}?details=true&chainId=137`));
    const place = { direction: "outgoing", chainId: 137 };
    const wallet = { type: "ALL", from: VAULT, to: HOT, contract: null, tokenId: null };
    const ofV2 = { rights: `0x${"0".repeat(64)}`, amount: null, tokenStandard: null };
    const expected = { ...wallet, ...place, ...ofV2, ...event };
    expect(first).toEqual(expected);
    expect(Object.keys(first)).toEqual(Object.keys(expected));
    expect(coin).toMatchObject({ type: "TOKEN", tokenId: null, amount: 250000, tokenStandard: "ERC20" });
    expect(token).toMatchObject({ type: "TOKEN", tokenId: 7, amount: 5, tokenStandard: "ERC1155", rights: AIRDROP });

    const [v1] = JSON.parse(await ask(samples, `/registry/v1/${HOT}?details=true`));
    expect(Object.keys(v1)).toEqual(
      ["type", "delegate", "vault", "contract", "tokenId"].concat(Object.keys({ ...place, ...event })),
    );
    expect(v1).toMatchObject({ direction: "incoming", chainId: 1, ...event });
  });

  test("returns exact numbers, and strings with numbers=string", async ({ samples }) => {
    expect(await ask(samples, `/registry/v2/${OTHER}?numbers=string`)).toContain(`"tokenId":"${MAX}"`);
    expect(await ask(samples, `/registry/v2/${OTHER}?numbers=string&details=true`)).toContain(
      `"amount":"${2n ** 200n}"`,
    );
    expect(await ask(samples, `/registry/v2/${OTHER}?details=true`)).toContain(`"amount":${2n ** 200n}`);
  });

  test.for([1, 2, 3, 4, 1000])(
    "with limit=%i returns pages that add up to the whole list",
    async (limit, { samples }) => {
      for (const wallet of [VAULT, OTHER, HOT, GONE]) {
        const whole = JSON.parse(await ask(samples, `/registry/v2/${wallet}?numbers=string&details=true`));
        const rows: unknown[] = [];
        let path: string | undefined = `/registry/v2/${wallet}?numbers=string&details=true&limit=${limit}`;
        while (path) {
          const response: Response = await samples.get(path);
          expect(response.status).toBe(200);
          const page = (await response.json()) as unknown[];
          expect(page.length).toBeLessThanOrEqual(limit);
          rows.push(...page);
          path = /^<(.*)>; rel="next"$/.exec(response.headers.get("Link") ?? "")?.[1];
          expect(path === undefined).toBe(rows.length === whole.length);
        }
        expect(rows).toEqual(whole);
      }
    },
  );
});

test.for([
  `/registry/v1/${VAULT}`,
  `/registry/v2/${VAULT}`,
  `/registry/v2/${GONE}`,
  `/registry/v2/${VAULT}?limit=1`,
  `/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`,
  `/registry/v2/check/erc20?delegate=${HOT}&vault=${VAULT}&contract=${COIN}`,
])("every response names its block: %s", async (path, { samples }) => {
  const { headers } = await samples.get(path);
  expect(headers.get("Content-Type")).toBe("application/json");
  expect(headers.get("Cache-Control")).toBe("no-store");
  expect(headers.get("X-Indexed-Block")).toMatch(/^[1-9]\d*$/);
  expect(Number(headers.get("X-Indexed-Block-Timestamp"))).toBeGreaterThan(1_700_000_000);
  expect(headers.get("X-Finalized-Block")).toMatch(/^\d+$/);
  expect(headers.get("X-Request-Id")).toBeTruthy();
});
