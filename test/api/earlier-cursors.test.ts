import { expect } from "vitest";
import { COIN, GUEST, HOT, NFT, VAULT } from "../support/api.ts";
import { test } from "../support/test.ts";

// A client may ask for its next page after an update of the service, or another process may answer it.

test.for([
  [`/registry/v1/${VAULT}?limit=1`, `v1.1.${VAULT.toLowerCase()}.outgoing.14.0`],
  [`/registry/v1/${VAULT}?limit=1`, `v1.1.${VAULT.toLowerCase()}.incoming.14.0`],
  [`/registry/v2/${VAULT}?limit=1&block=20`, `v2.1.${VAULT.toLowerCase()}@20.outgoing.1.0`],
  [`/wallets/${HOT}/vaults?limit=1`, "4j-UOGO26u5CGFrE~1.0.1.0~~"],
  [`/wallets/${GUEST}/vaults?check=erc20&contract=${COIN}&limit=1`, "4DlT5nQvHzA49s8C~1.2.5.0~~"],
  [`/wallets/${VAULT}/delegates?contract=${NFT}&chainId=1&limit=1`, "4tK_R5eKrE_OiKMK~1.0.1.0~~"],
  [`/wallets/${VAULT}/delegates?limit=1&delegate=${HOT}`, "4fMeVFb98SmakCky~1.0.1.0~~"],
  [`/wallets/${VAULT}/delegations?limit=1&partial=true`, "4DUbvhyrGwo8lVO6~1.1.1.0~~137"],
  [`/wallets/${VAULT}/history?limit=1`, "5gHp8PJBP7ghWcIv~1700000000.1.22.0.0~~"],
] as const)("%s takes the cursor %s of an earlier version", async ([path, text], { samples }) => {
  const response = await samples.get(`${path}&cursor=${Buffer.from(text).toString("base64url")}`);
  expect(response.status, await response.text()).toBe(200);
});

test("the next page of a list has the cursor that earlier versions read", async ({ samples }) => {
  const readCursor = async (path: string) => {
    const response = await samples.get(path);
    const [, cursor = ""] = /[?&]cursor=([^&>]+)/.exec(response.headers.get("link") ?? "") ?? [];
    return Buffer.from(cursor, "base64url").toString();
  };
  expect(await readCursor(`/registry/v2/${VAULT}?limit=1`)).toBe(`v2.1.${VAULT.toLowerCase()}.outgoing.1.0`);
  expect(await readCursor(`/wallets/${VAULT}/delegations?limit=1`)).toBe("4DUbvhyrGwo8lVO6~1.1.1.0~~");
});
