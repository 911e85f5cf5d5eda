import { maxUint256 } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  AIRDROP,
  type Api,
  COIN,
  FRIEND,
  GONE,
  GUEST,
  HOT,
  launchSampleApi,
  NFT,
  OTHER,
  SAFE,
  VAULT,
} from "../support/api.ts";

// Over the sandbox's samples: see sandbox/samples.ts for who delegated what to whom.

let api: Api;
beforeAll(async () => {
  api = await launchSampleApi();
});
afterAll(() => api?.stop());

/** The exact body of an answer. */
const ask = async (path: string): Promise<string> => {
  const response = await api.get(path);
  const body = await response.text();
  expect(response.status, body).toBe(200);
  return body;
};

const query = (parameters: Record<string, string>) => new URLSearchParams(parameters).toString();

describe("a check answers by the registry's rules", () => {
  const MAX = String(maxUint256);
  const VOTE = "0x766f746500000000000000000000000000000000000000000000000000000000";
  test.for<[question: string, parameters: Record<string, string>, answer: string]>([
    ["v1/check/all", { delegate: HOT, vault: VAULT }, "true"],
    ["v1/check/all", { delegate: HOT, vault: SAFE }, "true"],
    ["v1/check/all", { delegate: VAULT, vault: HOT }, "false"],
    ["v1/check/all", { delegate: FRIEND, vault: VAULT }, "false"],
    ["v1/check/all", { delegate: GONE, vault: VAULT }, "false"],
    ["v1/check/all", { delegate: GONE, vault: SAFE }, "false"],
    ["v1/check/all", { delegate: HOT, vault: OTHER }, "false"],
    ["v1/check/contract", { delegate: HOT, vault: VAULT, contract: COIN }, "true"],
    ["v1/check/contract", { delegate: FRIEND, vault: VAULT, contract: NFT }, "true"],
    ["v1/check/contract", { delegate: FRIEND, vault: VAULT, contract: COIN }, "false"],
    ["v1/check/contract", { delegate: GUEST, vault: VAULT, contract: NFT }, "false"],
    ["v1/check/token", { delegate: HOT, vault: VAULT, contract: COIN, tokenId: "1" }, "true"],
    ["v1/check/token", { delegate: FRIEND, vault: VAULT, contract: NFT, tokenId: "1" }, "true"],
    ["v1/check/token", { delegate: GUEST, vault: VAULT, contract: NFT, tokenId: "8520" }, "true"],
    ["v1/check/token", { delegate: GUEST, vault: VAULT, contract: NFT, tokenId: "0x2148" }, "true"],
    ["v1/check/token", { delegate: GUEST, vault: VAULT, contract: NFT, tokenId: "8521" }, "false"],
    ["v1/check/token", { delegate: GUEST, vault: VAULT, contract: COIN, tokenId: "8520" }, "false"],

    ["v2/check/all", { to: HOT, from: VAULT }, "true"],
    ["v2/check/all", { to: VAULT, from: HOT }, "false"],
    ["v2/check/all", { to: HOT, from: VAULT, rights: AIRDROP }, "true"],
    ["v2/check/all", { to: FRIEND, from: VAULT }, "false"],
    ["v2/check/all", { to: FRIEND, from: VAULT, rights: AIRDROP }, "true"],
    ["v2/check/all", { to: FRIEND, from: VAULT, rights: AIRDROP.toUpperCase().replace("0X", "0x") }, "true"],
    ["v2/check/all", { to: FRIEND, from: VAULT, rights: "airdrop" }, "true"],
    ["v2/check/all", { to: FRIEND, from: VAULT, rights: "airdrops" }, "false"],
    ["v2/check/all", { to: FRIEND, from: VAULT, rights: VOTE }, "false"],
    ["v2/check/all", { to: FRIEND, from: VAULT, rights: "" }, "false"],
    ["v2/check/all", { to: FRIEND, from: VAULT, rights: "0x" }, "false"],
    ["v2/check/all", { to: FRIEND, from: VAULT, rights: `0x${"0".repeat(64)}` }, "false"],
    ["v2/check/all", { to: HOT, from: VAULT, rights: "0x" }, "true"],
    ["v2/check/all", { to: OTHER, from: OTHER }, "true"],
    ["v2/check/all", { to: GONE, from: VAULT }, "false"],
    ["v2/check/contract", { to: HOT, from: VAULT, contract: COIN }, "true"],
    ["v2/check/contract", { to: FRIEND, from: VAULT, contract: NFT }, "true"],
    ["v2/check/contract", { to: FRIEND, from: VAULT, contract: NFT, rights: VOTE }, "true"],
    ["v2/check/contract", { to: FRIEND, from: VAULT, contract: COIN }, "false"],
    ["v2/check/contract", { to: FRIEND, from: VAULT, contract: COIN, rights: AIRDROP }, "true"],
    ["v2/check/contract", { to: HOT, from: OTHER, contract: COIN }, "false"],
    ["v2/check/contract", { to: HOT, from: OTHER, contract: COIN, rights: AIRDROP }, "true"],
    ["v2/check/erc721", { delegate: GUEST, vault: VAULT, contract: NFT, tokenId: "8520" }, "true"],
    ["v2/check/erc721", { delegate: GUEST, vault: VAULT, contract: NFT, tokenId: "7" }, "false"],
    ["v2/check/erc721", { delegate: GUEST, vault: VAULT, contract: NFT, tokenId: "7", rights: AIRDROP }, "false"],
    ["v2/check/erc721", { delegate: HOT, vault: OTHER, contract: NFT, tokenId: MAX }, "true"],
    ["v2/check/erc721", { delegate: HOT, vault: OTHER, contract: NFT, tokenId: `0x${"f".repeat(64)}` }, "true"],
    ["v2/check/erc721", { delegate: HOT, vault: OTHER, contract: NFT, tokenId: String(maxUint256 - 1n) }, "false"],
    ["v2/check/erc20", { delegate: GUEST, vault: VAULT, contract: COIN }, "250000"],
    ["v2/check/erc20", { delegate: GUEST, vault: VAULT, contract: COIN, rights: VOTE }, "250000"],
    ["v2/check/erc20", { delegate: GUEST, vault: VAULT, contract: NFT }, "0"],
    ["v2/check/erc20", { delegate: HOT, vault: OTHER, contract: COIN }, String(2n ** 200n)],
    ["v2/check/erc20", { delegate: HOT, vault: OTHER, contract: COIN, rights: AIRDROP }, MAX],
    ["v2/check/erc20", { delegate: HOT, vault: VAULT, contract: COIN }, MAX],
    ["v2/check/erc1155", { delegate: GUEST, vault: VAULT, contract: NFT, tokenId: "7" }, "0"],
    ["v2/check/erc1155", { delegate: GUEST, vault: VAULT, contract: NFT, tokenId: "7", rights: AIRDROP }, "5"],
    ["v2/check/erc1155", { delegate: GUEST, vault: VAULT, contract: NFT, tokenId: "8", rights: AIRDROP }, "0"],
    ["v2/check/erc1155", { delegate: FRIEND, vault: VAULT, contract: NFT, tokenId: "8" }, MAX],
    ["v2/check/erc1155", { delegate: GONE, vault: VAULT, contract: NFT, tokenId: "7" }, "0"],
  ])("%s %o: %s", async ([question, parameters, answer]) => {
    expect(await ask(`/registry/${question}?${query(parameters)}`)).toBe(answer);
    expect(await ask(`/registry/${question}?${query({ ...parameters, chainId: "137" })}`)).toBe(answer);
  });
});

describe("a v2 check takes either spelling of both wallets", () => {
  test.for(["all", "contract", "erc721", "erc1155", "erc20"])("%s", async (check) => {
    const rest = { contract: NFT, tokenId: "1" };
    const spellings: Record<string, string>[] = [
      { to: HOT, from: VAULT },
      { delegate: HOT, vault: VAULT },
      { to: HOT, vault: VAULT },
      { delegate: HOT, from: VAULT },
      { to: HOT, delegate: HOT.toLowerCase(), from: VAULT, vault: VAULT.toUpperCase().replace("0X", "0x") },
    ];
    const answers = await Promise.all(
      spellings.map((wallets) => ask(`/registry/v2/check/${check}?${query({ ...rest, ...wallets })}`)),
    );
    expect(new Set(answers)).toEqual(
      new Set([check.startsWith("erc1155") || check === "erc20" ? String(maxUint256) : "true"]),
    );
  });
});

describe("a list", () => {
  test("holds the five fields in their order, incoming first, oldest first, checksummed", async () => {
    expect(await ask(`/registry/v1/${HOT.toLowerCase()}`)).toBe(
      `[{"type":"ALL","delegate":"${HOT}","vault":"${VAULT}","contract":null,"tokenId":null},` +
        `{"type":"ALL","delegate":"${HOT}","vault":"${SAFE}","contract":null,"tokenId":null}]`,
    );
    expect(await ask(`/registry/v1/${VAULT}`)).toBe(
      `[{"type":"ALL","delegate":"${HOT}","vault":"${VAULT}","contract":null,"tokenId":null},` +
        `{"type":"CONTRACT","delegate":"${FRIEND}","vault":"${VAULT}","contract":"${NFT}","tokenId":null},` +
        `{"type":"TOKEN","delegate":"${GUEST}","vault":"${VAULT}","contract":"${NFT}","tokenId":8520}]`,
    );
    expect(await ask(`/registry/v2/${VAULT}`)).toBe(
      `[{"type":"ALL","from":"${VAULT}","to":"${HOT}","contract":null,"tokenId":null},` +
        `{"type":"ALL","from":"${VAULT}","to":"${FRIEND}","contract":null,"tokenId":null},` +
        `{"type":"CONTRACT","from":"${VAULT}","to":"${FRIEND}","contract":"${NFT}","tokenId":null},` +
        `{"type":"TOKEN","from":"${VAULT}","to":"${GUEST}","contract":"${NFT}","tokenId":8520},` +
        `{"type":"TOKEN","from":"${VAULT}","to":"${GUEST}","contract":"${COIN}","tokenId":null},` +
        `{"type":"TOKEN","from":"${VAULT}","to":"${GUEST}","contract":"${NFT}","tokenId":7}]`,
    );
  });

  test("shows both directions, token ids exactly, and a delegation to itself once", async () => {
    expect(await ask(`/registry/v2/${OTHER}`)).toBe(
      `[{"type":"ALL","from":"${OTHER}","to":"${OTHER}","contract":null,"tokenId":null},` +
        `{"type":"TOKEN","from":"${OTHER}","to":"${HOT}","contract":"${COIN}","tokenId":null},` +
        `{"type":"TOKEN","from":"${OTHER}","to":"${HOT}","contract":"${NFT}","tokenId":${maxUint256}},` +
        `{"type":"CONTRACT","from":"${OTHER}","to":"${HOT}","contract":"${COIN}","tokenId":null}]`,
    );
  });

  test("is [] for a wallet without delegations", async () => {
    expect(await ask(`/registry/v2/${GONE}`)).toBe("[]");
    expect(await ask(`/registry/v1/0x${"12".repeat(20)}`)).toBe("[]");
  });

  test("is the same with a slash at the end", async () => {
    expect(await ask(`/registry/v2/${VAULT}/`)).toBe(await ask(`/registry/v2/${VAULT}`));
    expect(await ask(`/registry/v2/${VAULT}/?chainId=137`)).toBe(await ask(`/registry/v2/${VAULT}?chainId=137`));
  });

  test("tells more with details=true, in the documented order", async () => {
    const [first, , , , coin, token] = JSON.parse(await ask(`/registry/v2/${VAULT}?details=true&chainId=137`));
    const event = {
      blockNumber: expect.any(Number),
      blockTimestamp: expect.any(Number),
      transactionHash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
    };
    expect(first).toEqual({
      type: "ALL",
      from: VAULT,
      to: HOT,
      contract: null,
      tokenId: null,
      direction: "outgoing",
      chainId: 137,
      rights: `0x${"0".repeat(64)}`,
      amount: null,
      tokenStandard: null,
      ...event,
    });
    expect(Object.keys(first)).toEqual(
      "type from to contract tokenId direction chainId rights amount tokenStandard blockNumber blockTimestamp transactionHash".split(
        " ",
      ),
    );
    expect(coin).toMatchObject({ type: "TOKEN", tokenId: null, amount: 250000, tokenStandard: "ERC20" });
    expect(token).toMatchObject({ type: "TOKEN", tokenId: 7, amount: 5, tokenStandard: "ERC1155", rights: AIRDROP });

    const [v1] = JSON.parse(await ask(`/registry/v1/${HOT}?details=true`));
    expect(Object.keys(v1)).toEqual(
      "type delegate vault contract tokenId direction chainId blockNumber blockTimestamp transactionHash".split(" "),
    );
    expect(v1).toMatchObject({ direction: "incoming", chainId: 1, ...event });
    expect(await ask(`/registry/v1/${HOT}?details=false`)).toBe(await ask(`/registry/v1/${HOT}`));
  });

  test.for([1, 2, 3, 4, 1000])("comes in pages of %i that make up the whole", async (limit) => {
    for (const wallet of [VAULT, OTHER, HOT, GONE]) {
      const whole = JSON.parse(await ask(`/registry/v2/${wallet}?numbers=string&details=true`));
      const rows: unknown[] = [];
      let path: string | undefined = `/registry/v2/${wallet}?numbers=string&details=true&limit=${limit}`;
      while (path) {
        const response: Response = await api.get(path);
        expect(response.status).toBe(200);
        const page = (await response.json()) as unknown[];
        expect(page.length).toBeLessThanOrEqual(limit);
        rows.push(...page);
        path = /^<(.*)>; rel="next"$/.exec(response.headers.get("Link") ?? "")?.[1];
        expect(path === undefined).toBe(rows.length === whole.length);
      }
      expect(rows).toEqual(whole);
    }
  });
});

describe("numbers", () => {
  test("are exact JSON integers, and strings on request", async () => {
    const erc20 = `/registry/v2/check/erc20?${query({ delegate: HOT, vault: OTHER, contract: COIN })}`;
    expect(await ask(erc20)).toBe(String(2n ** 200n));
    expect(await ask(`${erc20}&numbers=number`)).toBe(String(2n ** 200n));
    expect(await ask(`${erc20}&numbers=string`)).toBe(`"${2n ** 200n}"`);
    const erc1155 = `/registry/v2/check/erc1155?${query({ delegate: HOT, vault: VAULT, contract: COIN, tokenId: "0" })}`;
    expect(await ask(`${erc1155}&numbers=string`)).toBe(`"${maxUint256}"`);
    expect(await ask(`/registry/v2/${OTHER}?numbers=string`)).toContain(`"tokenId":"${maxUint256}"`);
    expect(await ask(`/registry/v2/${OTHER}?numbers=string&details=true`)).toContain(`"amount":"${2n ** 200n}"`);
    expect(await ask(`/registry/v2/${OTHER}?details=true`)).toContain(`"amount":${2n ** 200n}`);
    // Nothing to write differently in a boolean.
    expect(await ask(`/registry/v2/check/all?${query({ to: HOT, from: VAULT, numbers: "string" })}`)).toBe("true");
  });
});

describe("every answer", () => {
  const PATHS = [
    `/registry/v1/${VAULT}`,
    `/registry/v2/${VAULT}`,
    `/registry/v2/${GONE}`,
    `/registry/v2/${VAULT}?limit=1`,
    `/registry/v1/check/all?${query({ delegate: HOT, vault: VAULT })}`,
    `/registry/v2/check/erc20?${query({ delegate: HOT, vault: VAULT, contract: COIN })}`,
  ];

  test.for(PATHS)("says at which block it is true: %s", async (path) => {
    const { headers } = await api.get(path);
    expect(headers.get("Content-Type")).toBe("application/json");
    expect(headers.get("Cache-Control")).toBe("no-store");
    expect(headers.get("X-Indexed-Block")).toMatch(/^[1-9]\d*$/);
    expect(Number(headers.get("X-Indexed-Block-Timestamp"))).toBeGreaterThan(1_700_000_000);
    expect(headers.get("X-Finalized-Block")).toMatch(/^\d+$/);
    expect(headers.get("X-Request-Id")).toBeTruthy();
  });

  test.for(PATHS)("has the same headers for HEAD, and no body: %s", async (path) => {
    const [get, head] = [await api.get(path), await api.get(path, { method: "HEAD" })];
    expect(head.status).toBe(200);
    expect(await head.text()).toBe("");
    for (const name of ["Content-Type", "X-Indexed-Block", "X-Finalized-Block", "Link"]) {
      expect(head.headers.get(name)).toBe(get.headers.get(name));
    }
  });

  test("repeats a request id that it was given, unless it is one to mistrust", async () => {
    const idOf = async (id: string) =>
      (await api.get("/health", { headers: { "X-Request-Id": id } })).headers.get("X-Request-Id");
    expect(await idOf("trace-0001")).toBe("trace-0001");
    expect(await idOf('"}{"level":60')).toMatch(/^[0-9a-f]{16}-\d+$/);
  });
});
