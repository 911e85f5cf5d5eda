import { describe, expect, test } from "vitest";
import { SAMPLES } from "../../api/contract/parameters.ts";
import { createClient, RegistryError } from "../../client/src/index.ts";
import { createProblem, readAnswer, readProblem } from "../../web/checks/answers.ts";
import { buildDownload } from "../../web/checks/download.ts";
import { explainBlock, readList } from "../../web/checks/read-list.ts";
import { SAMPLE } from "../../web/checks/sample.ts";
import { COIN, GUEST, HOT, NFT, VAULT } from "../support/api.ts";

// test/api/check-lists.test.ts compares the problems with those of the API.

const WALLETS = { delegate: HOT, vault: VAULT };
const LARGEST = String(2n ** 256n - 1n);

const readChecks = (text: string) => readList(text, null).rows.map(({ check, problem }) => check ?? problem);
const readErrors = (text: string) => readList(text, null).errors.map(({ line, problem }) => `${line} ${problem}`);

describe("readList()", () => {
  test("makes a check of each line, with the defaults for empty fields", () => {
    const text = `Chain ID,FROM,to,Registry,check,contract,token_id,rights,note
,${VAULT},${HOT},,,,,,whole wallet
137,${VAULT},${HOT},,,${NFT},,,contract
1,${VAULT},${HOT},v2,erc721,${NFT},${LARGEST},airdrop,token
,${VAULT},${HOT},v1,,${NFT},0x2148,airdrop,token of v1
, ${VAULT} ,${HOT},v2,erc20,${COIN}`;
    expect(readChecks(text)).toEqual([
      { registry: "v2", check: "all", ...WALLETS, chainId: 1 },
      { registry: "v2", check: "contract", ...WALLETS, contract: NFT, chainId: 137 },
      {
        registry: "v2",
        check: "erc721",
        ...WALLETS,
        contract: NFT,
        tokenId: BigInt(LARGEST),
        rights: "airdrop",
        chainId: 1,
      },
      { registry: "v1", check: "token", ...WALLETS, contract: NFT, tokenId: 8520n, chainId: 1 },
      { registry: "v2", check: "erc20", ...WALLETS, contract: COIN, chainId: 1 },
    ]);
  });

  test("needs the kind of a token on v2", () => {
    expect(readChecks(`to,from,contract,tokenId\n${HOT},${VAULT},${NFT},1`)).toEqual([
      "check is required with a tokenId on v2: erc721 or erc1155.",
    ]);
  });

  test("names a problem of the list by its line", () => {
    const unnamed = "The first line must name the columns, with to (or delegate) and from (or vault) among them.";
    expect(readErrors("")).toEqual([`1 ${unnamed}`, "1 There is no line with a check."]);
    expect(readErrors("to,from\n\n")).toEqual(["1 There is no line with a check."]);
    expect(readErrors(`\n${HOT},${VAULT}\n${HOT},${VAULT}`)).toEqual([`2 ${unnamed}`]);
    expect(readErrors(`to,from,To\n${HOT},${VAULT},${HOT}`)).toEqual(["1 Two columns are named to."]);
    expect(readErrors(`to,from\n${HOT},${VAULT},,\n${HOT},${VAULT},x\n"${HOT}`)).toEqual([
      "4 A quoted field has no closing quote.",
      "3 It has 3 fields for 2 columns.",
    ]);
  });

  test("leaves no check in doubt: each line has a check or a problem", () => {
    const list = readList(`to,from\n${HOT},${VAULT}\n0x12,\n${HOT},${HOT}`, null);
    expect(list.rows.map(({ line, problem }) => [line, problem])).toEqual([
      [2, null],
      [3, "to must be 0x and 40 hex digits. vault is required (or its other name, from)."],
      [4, null],
    ]);
  });

  test("1,000 of the longest checks are less than 1 MB", async () => {
    const rights = `"${"\u0001".repeat(31)}"`;
    const line = `v2,erc1155,${GUEST},${VAULT},${NFT},${LARGEST},${rights},999999999999999`;
    const { rows } = readList(`registry,check,to,from,contract,tokenId,rights,chainId\n${line}`, null);
    const check = rows[0]?.check ?? expect.fail(`${rows[0]?.problem}`);
    const sent: number[] = [];
    const fetch = async (_: unknown, { body = "" }: { body?: unknown } = {}) => {
      sent.push(String(body).length);
      throw new Error("offline");
    };
    const registry = createClient({ url: "http://127.0.0.1", apiKey: "key", retries: 0, fetch });
    await registry.checks(new Array(1000).fill(check), { block: 999_999_999_999_999n });
    expect(sent).toHaveLength(1);
    expect(sent[0]).toBeLessThan(1_000_000);
  });
});

test("explainBlock() takes a number for one network only", () => {
  const one = readList(`to,from\n${HOT},${VAULT}\n${HOT},${VAULT}`, null);
  const two = readList(`to,from,chainId\n${HOT},${VAULT},137\n${HOT},${VAULT},`, null);
  for (const block of ["", "0", "21000000", "finalized"]) expect(explainBlock(block, one)).toBe(null);
  for (const block of ["", "finalized"]) expect(explainBlock(block, two)).toBe(null);
  expect(explainBlock("1", two)).toMatch(/^block must not be a number with checks on several networks/);
  for (const block of ["latest", "-1", "0x10", "1.5"]) {
    expect(explainBlock(block, one)).toBe("block must be a block number in decimal digits, or finalized.");
  }
});

describe("buildDownload()", () => {
  const ANSWER = { result: "true", problem: "", block: "21000000", final: "false" };

  test("returns the columns as they were, in their order, and the answers", () => {
    const list = readList(
      `Name;to;from;tokenId\n"=1+1";${HOT};${VAULT};\n"Doe; J";0x12;${VAULT}\nx;${HOT};${VAULT}`,
      null,
    );
    expect(buildDownload(list, [ANSWER, createProblem("to must be an address."), undefined])).toBe(
      [
        "Name;to;from;tokenId;result;problem;block;final",
        `'=1+1;${HOT};${VAULT};;true;;21000000;false`,
        `"Doe; J";0x12;${VAULT};;;to must be an address.;;`,
        `x;${HOT};${VAULT};;;;;`,
        "",
      ].join("\r\n"),
    );
  });

  test("returns commas for a list with tabs", () => {
    const list = readList(`to\tfrom\n${HOT}\t${VAULT}`, null);
    expect(buildDownload(list, [ANSWER])).toContain(`${HOT},${VAULT},true,,21000000,false\r\n`);
  });

  test("replaces the answers of an earlier download, and keeps columns of the same names elsewhere", () => {
    const first = buildDownload(readList(`to,from\n${HOT},${VAULT}`, null), [createProblem("a problem")]);
    expect(buildDownload(readList(first, null), [ANSWER])).toBe(
      `to,from,result,problem,block,final\r\n${HOT},${VAULT},true,,21000000,false\r\n`,
    );
    const rights = (text: string) =>
      readList(text, null).rows.map(({ check }) => check && "rights" in check && check.rights);
    const safe = buildDownload(readList(`to,from,rights\n${HOT},${VAULT},-mint`, null), [ANSWER]);
    expect(safe).toContain("'-mint");
    expect([rights(safe), rights(`to,from,rights\n${HOT},${VAULT},'-mint`)]).toEqual([["-mint"], ["'-mint"]]);
    const own = readList(`to,from,block\n${HOT},${VAULT},mine`, null);
    expect(buildDownload(own, [ANSWER])).toContain(`${VAULT},mine,true,,21000000,false`);
  });

  test("keeps balances and token ids exact", () => {
    const list = readList(`to,from,check,contract,tokenId\n${HOT},${VAULT},erc1155,${NFT},${LARGEST}`, null);
    expect(buildDownload(list, [{ ...ANSWER, result: LARGEST }])).toContain(`${LARGEST},${LARGEST},,`);
  });
});

test("readAnswer() keeps a balance exact, and the block of the answer", () => {
  expect(readAnswer({ value: 2n ** 256n - 1n, block: { number: 7n, final: true } })).toEqual({
    result: LARGEST,
    problem: "",
    block: "7",
    final: "true",
  });
});

test("readProblem() tells a problem of one check or network from one of all checks", () => {
  const fail = (name: string, status: number) =>
    new RegistryError("", { problem: { type: `/docs#problem-${name}`, title: "", status, detail: name } });
  for (const [name, status] of [
    ["bad-parameter", 400],
    ["not-indexed", 503],
    ["stale-index", 503],
  ] as const) {
    expect(readProblem(fail(name, status))).toEqual(createProblem(name));
  }
  for (const [name, status] of [
    ["unknown-key", 401],
    ["rate-limited", 429],
    ["overloaded", 503],
    ["database-unavailable", 503],
  ] as const) {
    expect(readProblem(fail(name, status))).toBe(null);
  }
  for (const error of [new RegistryError("no response"), new Error("stopped")]) expect(readProblem(error)).toBe(null);
});

test("the sample names wallets and contracts of the sandbox", () => {
  const known = new Set<string>(Object.values(SAMPLES));
  for (const address of SAMPLE.match(/0x\w+/g) ?? []) expect(known).toContain(address);
  expect(readChecks(SAMPLE)).toHaveLength(6);
});
