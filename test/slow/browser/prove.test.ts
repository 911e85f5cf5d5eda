import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { type Proof, verifyProof } from "../../../client/src/proof.ts";
import { blockExplorers } from "../../../registry/block-explorers.ts";
import { FRESH_FOR_A_DAY, startTestApi } from "../../support/api.ts";
import { test as base, expectAccessible, readText, SCREENS } from "../../support/browser.ts";
import { launchRpcProxy } from "../../support/rpc-proxy.ts";
import { describeWithPrograms } from "../../support/run.ts";

const CHAIN = 8453;
const NOBODY = "0x0000000000000000000000000000000000000123";

const test = base
  .extend("chainOptions", { seed: 3, blocks: 20, overWebSocket: false })
  .extend("node", { scope: "file" }, async ({ indexed }, { onCleanup }) => {
    const node = await launchRpcProxy(indexed.subject.local.url);
    onCleanup(node.stop);
    return node;
  })
  .extend("proving", ({ indexed, node }) =>
    startTestApi({
      databaseUrl: indexed.databaseUrl,
      env: { ...FRESH_FOR_A_DAY, [`PROOF_RPC_URL_${CHAIN}`]: node.url },
    }),
  )
  /** A delegation of a whole wallet, with full rights. */
  .extend("grant", { scope: "file" }, async ({ indexed }) => {
    const { rows } = await indexed.database.query<{ vault: string; delegate: string }>(
      `select vault, delegate from registry.delegation_v2 where type = 'ALL' and rights = '0x${"0".repeat(64)}' limit 1`,
    );
    if (!rows[0]) throw new Error("There is no such delegation.");
    return rows[0];
  });

const pathOf = (to: string, from: string, more = "&type=all") =>
  `/?view=check&registry=v2&chainId=${CHAIN}&to=${to}&from=${from}${more}`;

const prove = async (page: Page) => {
  await page.getByRole("button", { name: "Prove it" }).click();
  await page.getByRole("button", { name: "Save the proof" }).waitFor();
};

describeWithPrograms(["chromium"], "a check's proof", () => {
  test("is verified in the browser, shown in plain words, and saved", async ({ proving, open, grant, indexed }) => {
    const { vault, delegate } = grant;
    const page = await open(pathOf(delegate, vault), { url: proving.url });
    await prove(page);
    const { number, hash } = await indexed.subject.local.client.getBlock();
    const text = await readText(page.locator(".prove"));
    expect(text).toContain("Verified in your browser: Yes.");
    expect(text).toContain("Delegation for the whole wallet, full rights: active");
    expect(text).toContain(`the hash of block ${number.toLocaleString("en")} of Base`);
    expect(text).toContain(hash);
    const explorer = page.locator(".prove").getByRole("link");
    expect(await explorer.getAttribute("href")).toBe(`${blockExplorers.get(CHAIN)}/block/${number}`);

    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Save the proof" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`proof-v2-all-${CHAIN}-${number}.json`);
    const file: Proof = JSON.parse(await readFile(await download.path(), "utf8"));
    expect(verifyProof(file, { hash, chainId: CHAIN }).value).toBe(true);
  });

  test("of a “no” shows everything that could have made it a “yes”", async ({ proving, open, grant }) => {
    const more = `&type=erc20&contract=${NOBODY}&rights=airdrop`;
    const page = await open(pathOf(NOBODY, grant.vault, more), { url: proving.url });
    await prove(page);
    const places = await page.locator(".places li > span").allInnerTexts();
    expect(places).toEqual([
      "Delegation for the whole wallet, full rights: none",
      "Delegation for the whole wallet, the right “airdrop”: none",
      "Delegation for the contract, full rights: none",
      "Delegation for the contract, the right “airdrop”: none",
      "Amount of the ERC-20 token, full rights: 0",
      "Amount of the ERC-20 token, the right “airdrop”: 0",
    ]);
  });

  test("that does not verify is refused", async ({ proving, open, grant }) => {
    const page = await open(pathOf(grant.delegate, grant.vault), {
      url: proving.url,
      // What a service that lies would send.
      prepare: async (page) => {
        await page.route("**/*proof=true*", async (route) => {
          const response = await route.fetch();
          const text = await response.text();
          await route.fulfill({ response, body: text.replace('"result":true', '"result":false') });
        });
      },
    });
    await page.getByRole("button", { name: "Prove it" }).click();
    await page.getByRole("heading", { name: "This is no proof" }).waitFor();
    expect(await readText(page.locator(".prove"))).toContain("The registry answers true, not false.");
  });

  test("of a node that fails is explained", async ({ proving, open, grant, node }) => {
    node.intercept = () => ({ status: 500 });
    const page = await open(pathOf(NOBODY, grant.vault), { url: proving.url, allowed: /503/ });
    await page.getByRole("button", { name: "Prove it" }).click();
    await page.getByRole("heading", { name: "No proof right now" }).waitFor();
    node.intercept = () => undefined;
    // The page asks again by itself.
    await page.getByRole("button", { name: "Save the proof" }).waitFor();
  });

  test("is not offered where there is none, with the reason", async ({ open, indexed, grant }) => {
    const api = await startTestApi({ databaseUrl: indexed.databaseUrl, env: FRESH_FOR_A_DAY });
    const page = await open(pathOf(grant.delegate, grant.vault), { url: api.url });
    await page.getByRole("heading", { name: "Proof" }).waitFor();
    expect(await readText(page.locator(".prove"))).toContain(
      "Answers on Base have no proof here: the operator has set no node for proofs of it.",
    );
    expect(await page.getByRole("button", { name: "Prove it" }).count()).toBe(0);
  });

  test.for(SCREENS)("is readable and accessible: %o", async (screen, { proving, open, grant }) => {
    const page = await open(pathOf(grant.delegate, grant.vault), { url: proving.url, ...screen });
    await prove(page);
    await expectAccessible(page);
  });
});
