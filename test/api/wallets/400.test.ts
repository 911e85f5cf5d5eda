import { describe, expect } from "vitest";
import { COIN, GUEST, HOT, NFT } from "../../support/api.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { test } from "../../support/test.ts";
import {
  askForged,
  askWallet,
  askWalletProblem,
  LISTS,
  setFinalBlock,
  startOf,
  type Vaults,
} from "../../support/wallets.ts";

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
  ["vaults?cursor=abc", ["cursor"]],
  ["delegations?direction=up", ["direction"]],
] as const)("%s is refused", async ([path, errors], { samples }) => {
  expect(await askWalletProblem(samples, `${HOT}/${path}`)).toMatchObject({ status: 400, errors });
});

test("a cursor fits no other list", async ({ samples }) => {
  const path = `${HOT}/vaults?check=erc20&contract=${COIN}`;
  const { next } = await askWallet<Vaults>(samples, `${path}&limit=1`);
  for (const other of [`${GUEST}/vaults?check=erc20&contract=${COIN}`, `${path}&registry=v2`, `${HOT}/delegates?`]) {
    const problem = await askWalletProblem(samples, `${other}&cursor=${next}`);
    expect(problem, other).toMatchObject({ status: 400, errors: ["cursor"] });
  }
  const bad = `${HOT}/vaults?check=erc20&contract=oops&cursor=${next}`;
  expect(await askWalletProblem(samples, bad), "the cursor is good").toMatchObject({ errors: ["contract"] });
});

describe("a forged cursor", () => {
  const FINAL = 40;
  test.beforeAll(async ({ database }) => {
    await setFinalBlock(database, await readServedSchema(database), FINAL);
  });

  const refused = {
    status: 400,
    detail: "cursor is not from this list: start again without it.",
    errors: ["cursor"],
  };

  test.for(LISTS)("of %s names no block unless the list is of final blocks", async (list, { api }) => {
    for (const query of ["", "chainId=1", `chainId=1&block=${FINAL}`, "chainId=1&minBlock=1"]) {
      expect(await askForged(api, list, query, { blocks: "137.0" }), query).toEqual(refused);
      expect(await askForged(api, list, query, { blocks: "1.0" }), query).toEqual(refused);
    }
  });

  test.for(LISTS)("of %s names no network but those of the question", async (list, { api }) => {
    for (const [query, parts] of [
      ["block=finalized", { blocks: "1.0.5.0" }],
      ["block=finalized&chainId=1", { blocks: "1.0.137.0" }],
      ["", { missing: "5" }],
      ["", { missing: "100000000000000001" }],
      ["chainId=1", { missing: "137" }],
      ["chainId=1", { missing: "0" }],
      ["", { position: startOf(list, 5) }],
      ["chainId=1", { position: startOf(list, 137) }],
    ] as const) {
      expect(await askForged(api, list, query, parts), `${query} ${JSON.stringify(parts)}`).toEqual(refused);
    }
  });

  test.for(LISTS)("of %s has a position with the parts of this list, in plain digits", async (list, { api }) => {
    const good = startOf(list, 1);
    const ofOther = startOf(list === "history" ? "vaults" : "history", 1);
    for (const position of [ofOther, "1", "", `0${good}`, good.replace(/0$/, "-1"), `${good}.0.0`]) {
      expect(await askForged(api, list, "", { position }), position).toEqual(refused);
    }
    expect(await askForged(api, list, "block=finalized", { blocks: "01.0" })).toEqual(refused);
    expect(await askForged(api, list, "block=finalized", { blocks: "1" })).toEqual(refused);
  });
});
