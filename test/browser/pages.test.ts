import { readFile } from "node:fs/promises";
import { expect } from "vitest";
import type { components } from "../../client/src/openapi.ts";
import { PAGES } from "../../web/pages.ts";
import { COIN, FRIEND, GUEST, HOT, NFT, VAULT } from "../support/api.ts";
import {
  createBrowserWallet,
  DARK_DESKTOP,
  expectAccessible,
  expectAccessibleOn,
  findHeading,
  LIGHT_PHONE,
  makeKeyOnPage,
  readDrawnSeries,
  readRows,
  readText,
  SCREENS,
  signInWithWallet,
  test,
  waitUntilFocused,
  walletPath,
} from "../support/browser.ts";
import { describeWithPrograms } from "../support/run.ts";
import { waitUntil } from "../support/setup.ts";

// The main use of every page. test/slow/browser/ has the others.

const NOBODY = "0x0000000000000000000000000000000000000123";
const BLOCK_EXPLORER = "https://etherscan.io";

type ActivityDay = { start: string; made: number; revoked: number };

const CHECKS = [
  ["v2", "Whole wallet", "all", { to: HOT, from: VAULT }],
  ["v2", "Contract", "contract", { to: FRIEND, from: VAULT, contract: NFT }],
  ["v2", "ERC-721 token", "erc721", { to: GUEST, from: VAULT, contract: NFT, tokenId: "8520" }],
  ["v2", "ERC-1155 amount", "erc1155", { to: GUEST, from: VAULT, contract: NFT, tokenId: "7", rights: "airdrop" }],
  ["v2", "ERC-20 amount", "erc20", { to: GUEST, from: VAULT, contract: COIN }],
  ["v1", "Whole wallet", "all", { to: HOT, from: VAULT }],
  ["v1", "Contract", "contract", { to: FRIEND, from: VAULT, contract: NFT }],
  ["v1", "Token", "token", { to: GUEST, from: VAULT, contract: NFT, tokenId: "8520" }],
] as const;

describeWithPrograms(["chromium"], "in a browser", () => {
  test.for(PAGES)("$path is accessible, and links to every page", async ({ path, title }, { open }) => {
    const page = await open(path, LIGHT_PHONE);
    expect(await page.title()).toContain(title);
    await page.locator("main h1").waitFor();
    await expectAccessibleOn(page, [LIGHT_PHONE, DARK_DESKTOP]);
    const navigation = page.getByRole("navigation", { name: "Pages" });
    for (const { links } of PAGES) {
      for (const { label, href } of links) {
        const link = navigation.getByRole("link", { name: label, exact: true });
        expect(await link.getAttribute("href")).toBe(href);
      }
    }
  });

  test("every page has the system's theme, until the user chooses another; the choice stays", async ({ open }) => {
    const page = await open("/", { colorScheme: "dark" });
    const background = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
    const dark = await background();
    const toggle = page.getByRole("button", { name: "Dark theme" });
    expect(await toggle.getAttribute("aria-pressed")).toBe("true");
    await toggle.click();
    expect(await toggle.getAttribute("aria-pressed")).toBe("false");
    const light = await background();
    expect(light).not.toBe(dark);
    await page.goto("/docs");
    expect(await background()).toBe(light);
  });

  test("the start page links each of the newest changes to its wallet's history on its network", async ({
    samples,
    open,
  }) => {
    const { newest } = (await (await samples.get("/insights/newest")).json()) as {
      newest: (components["schemas"]["WalletChange"] & { network: string })[];
    };
    const page = await open("/");
    const rows = await readRows(page, ".newest a");
    expect(rows).toHaveLength(10);
    const shorten = (address: string) => `${address.slice(0, 6)}…${address.slice(-4)}`;
    for (const [index, { kind, vault, delegate, network }] of newest.entries()) {
      expect(rows[index]?.toLowerCase()).toContain(`${kind} ${shorten(vault)} → to ${shorten(delegate)}`.toLowerCase());
      expect(rows[index]).toMatch(new RegExp(`(wallet|Contract|Token|amount).* ${network} .*(ago|now|yesterday)$`));
    }
    for (const { chainId, vault, transactionHash } of newest.slice(0, 2)) {
      const link = page.locator(`.newest a[href="${walletPath(vault, "history", chainId)}"]`);
      await link.first().click();
      await page.locator(`.timeline [title$="${transactionHash}"]`).first().waitFor();
      await page.goBack();
    }
  });

  test("the explorer shows what a wallet delegates: to which wallet, what, with which rights, since when", async ({
    open,
  }) => {
    const page = await open(walletPath(VAULT, "out"));
    const rows = await readRows(page);
    const count = (...texts: string[]) => rows.filter((row) => texts.every((text) => row.includes(text))).length;
    for (const texts of [
      [HOT, "Whole wallet", "All rights", "v2"],
      [HOT, "Whole wallet", "All rights", "v1"],
      [FRIEND, "Whole wallet", "Right “airdrop” only"],
      [FRIEND, "Contract", NFT, "v2"],
      [GUEST, "Token", "#8520", NFT, "v2"],
      [GUEST, "ERC-20 amount", "250,000", COIN],
      [GUEST, "ERC-1155 amount", "5 ×", "#7", "airdrop"],
    ]) {
      expect(count(...texts), texts.join()).toBe(1);
    }
    for (const text of rows) {
      expect(text).toMatch(/\d+ days ago|last month/);
      expect(text).toMatch(/\d{1,2} \w{3} \d{4}, \d\d:\d\d UTC/);
    }
    expect(await readText(page.locator(".list-end"))).toBe(`${rows.length} delegations`);
    expect(await readText(page.locator(".freshness"))).toMatch(/^As of block [\d,]+, (now|\d+ \w+ ago)$/);
    const links = await page.locator(`main a[href^="${BLOCK_EXPLORER}/"]`).evaluateAll((all) => all.map(String));
    expect(links).toContain(`${BLOCK_EXPLORER}/address/${NFT}`);
    expect(links.filter((link) => /\/tx\/0x[0-9a-f]{64}$/.test(link))).toHaveLength(rows.length);
    await expectAccessible(page);
  });

  test("the explorer shows which wallets trust a wallet, each with a link to its own view", async ({ open }) => {
    const page = await open(walletPath(HOT, "in"));
    const rows = await readRows(page);
    expect(rows.filter((row) => row.includes(VAULT))).toHaveLength(2);
    // Large amounts are exact.
    expect(rows.join()).toContain((2n ** 200n).toLocaleString("en"));
    await page.locator(".rows").getByRole("link", { name: VAULT }).first().click();
    await page.getByRole("link", { name: "Represented by", exact: true, includeHidden: false }).waitFor();
    expect(new URL(page.url()).search).toBe(walletPath(VAULT, "out").slice(1));
    expect((await readRows(page)).some((row) => row.includes(HOT))).toBe(true);
  });

  test("the explorer's checks answer as the API does, and name the delegation that grants it", async ({ open }) => {
    const page = await open("/?view=check");
    const verdict = page.locator(".verdict");
    const readVerdict = async () => {
      await verdict.locator(".freshness").waitFor();
      return readText(verdict.getByRole("heading").first());
    };
    for (const [registry, label, type, fields] of CHECKS) {
      await page.goto("/?view=check");
      const form = page.getByRole("form", { name: "Check" });
      await form.getByText(registry, { exact: true }).click();
      await form.getByText(label, { exact: true }).click();
      for (const [name, value] of Object.entries(fields)) await form.locator(`#${name}`).fill(value);
      await form.getByRole("button", { name: "Check" }).click();
      const shown = await readVerdict();
      const request = (await readText(verdict.locator("code"))).replace(/\s/g, "");
      expect(request).toContain(`/registry/${registry}/check/${type}?`);
      const answer = await (await fetch(request)).text();
      expect(answer, request).not.toBe("false");
      expect(shown.replaceAll(",", ""), request).toBe(answer === "true" ? "Yes" : answer);
      expect(await readRows(page, ".grants > li"), request).toHaveLength(1);

      await page.goto(page.url().replace(fields.from, NOBODY));
      expect(await readVerdict(), request).toMatch(/^(No|0)$/);
      expect(await readText(verdict)).toContain(`No active delegation between the two in the ${registry} registry`);
    }
  });

  test("the page for lists answers the sample, and downloads it with the answers", async ({ open }) => {
    const page = await open("/checks");
    await page.getByRole("button", { name: "Try the sample" }).click();
    await findHeading(page, "Done").waitFor();
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download CSV" }).click(),
    ]);
    const lines = (await readFile(await file.path(), "utf8")).trimEnd().split("\r\n");
    expect(lines.map((line) => line.split(",").at(-4))).toEqual([
      "result",
      "true",
      "false",
      "true",
      "250000",
      "5",
      "true",
    ]);
  });

  test("the developer page: a wallet signs in, makes a key, uses it, sees its use, and revokes it", async ({
    api,
    open,
  }) => {
    const sendWithKey = (key: string) => api.get(`/registry/v2/${HOT}`, { headers: { "X-API-KEY": key } });
    const wallet = createBrowserWallet({ chainId: 31337 });
    const permissions = ["clipboard-read", "clipboard-write"];
    const page = await open("/developers", { ...wallet, url: api.url, permissions });
    await signInWithWallet(page);
    expect(wallet.signed).toEqual([expect.stringContaining(`${new URL(api.url).host} wants you to sign in`)]);
    await page.getByText("No keys yet").waitFor();

    const key = await makeKeyOnPage(page, "Example app");
    expect(key).toMatch(/^delreg_[0-9A-Za-z]{38}$/);
    const made = page.getByRole("region", { name: "The key for “Example app”" });
    await waitUntilFocused(page, "made-key");
    await made.getByRole("button", { name: /^Copy key/ }).click();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key);

    const [, curl = "", fetched = ""] = await made.locator("pre").allInnerTexts();
    expect(curl).toBe(`curl -H "X-API-KEY: ${key}" "${api.url}/registry/v2/${wallet.account.address}"`);
    expect(await page.evaluate(`(async () => { ${fetched}; return response.status })()`)).toBe(200);
    expect((await sendWithKey(key)).status).toBe(200);

    await made.getByRole("button", { name: "I have stored it" }).click();
    expect(await page.content()).not.toContain(key);
    const readUsage = async () => {
      await page.reload();
      const row = page.getByRole("listitem").filter({ hasText: "Example app" });
      await row.waitFor();
      return row.getByRole("img").getAttribute("aria-label");
    };
    await waitUntil("two requests are shown", readUsage, 30, (label) =>
      /^2 requests in the last 30 days/.test(label ?? ""),
    );

    const revoke = page.getByRole("button", { name: "Revoke Example app" });
    const dialog = page.getByRole("dialog");
    await revoke.click();
    await dialog.getByRole("button", { name: "Keep it" }).click();
    expect((await sendWithKey(key)).status).toBe(200);
    await revoke.click();
    await dialog.getByRole("button", { name: "Revoke key" }).click();
    await page.getByText("No keys yet").waitFor();
    expect((await sendWithKey(key)).status).toBe(401);
    await page.getByText("1 revoked key").click();
    await page.getByText("revoked today").waitFor();

    await page.getByRole("button", { name: "Sign out" }).click();
    await findHeading(page, "Sign in with your wallet").waitFor();
    await page.reload();
    await findHeading(page, "Sign in with your wallet").waitFor();
  });

  test.for(SCREENS)(
    "the insights page draws the activity, with the numbers in tables, %o",
    async (screen, { open }) => {
      const page = await open("/insights", screen);
      const readTile = (label: string) =>
        page
          .locator(".tile", { has: page.getByText(label, { exact: true }) })
          .locator("dd")
          .textContent();
      await findHeading(page, "Activity").waitFor();
      expect(Number((await readTile("Ever made"))?.replace(",", ""))).toBeGreaterThanOrEqual(123);
      expect(await readTile("Networks up to date")).toBe("2 of 2");
      expect(await page.locator(".legend li").allInnerTexts()).toEqual(expect.arrayContaining(["Ethereum", "Polygon"]));
      // A colour for each network. All contracts are on the first network.
      expect(await readDrawnSeries(page, 0)).toEqual([true, true]);
      expect(await readDrawnSeries(page, 1)).toEqual([true, false]);
      for (const chart of await page.locator("canvas").all()) {
        expect(await chart.getAttribute("aria-label")).toMatch(/The table below has the numbers\.$/);
      }

      for (const summary of await page.locator("details summary").all()) await summary.click();
      const contracts = page.getByRole("region", { name: "Most delegated contracts" }).locator("table tbody tr");
      expect(await contracts.first().textContent()).toContain(NFT);
      const { days } = (await (await page.request.get("/insights/data")).json()) as { days: ActivityDay[] };
      const active = new Set(days.flatMap(({ start, made, revoked }) => (made + revoked > 0 ? start : [])));
      expect(active.size).toBeGreaterThan(35);
      expect(await page.getByRole("region", { name: "Activity per day" }).locator("tbody tr").count()).toBe(
        active.size,
      );
      await expectAccessible(page);
    },
  );

  test("the reference sends the request of a form, and shows the response and its headers", async ({ open }) => {
    const page = await open("/docs#v2CheckAll");
    const form = page.locator("#v2CheckAll form");
    expect(await form.locator('[name="to"]').inputValue()).toBe(HOT);
    expect(await form.locator('[name="from"]').inputValue()).toBe(VAULT);
    await form.getByRole("button", { name: "Send request" }).click();
    const result = form.locator(".result");
    await result.getByText("200 OK").waitFor();
    expect(await result.getByRole("group", { name: "Response" }).allInnerTexts()).toEqual(["true"]);
    await result.getByText("X-Indexed-Block", { exact: true }).waitFor();
  });

  test("the reference explains the problem that a form's request met", async ({ open }) => {
    const page = await open("/docs", { allowed: /400/ });
    const form = page.locator("#v2CheckAll form");
    await form.locator('[name="to"]').fill("0x123");
    await form.getByRole("button", { name: "Send request" }).click();
    await form.getByRole("link", { name: "What this problem means" }).click();
    expect(new URL(page.url()).hash).toBe("#problem-bad-parameter");
  });
});
