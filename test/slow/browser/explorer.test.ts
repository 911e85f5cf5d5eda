import type { Page, Route } from "playwright-core";
import { getAddress } from "viem";
import { expect, onTestFinished, test } from "vitest";
import {
  AIRDROP,
  COIN,
  FRESH_FOR_A_DAY,
  FRIEND,
  GONE,
  GUEST,
  HOT,
  launchApi,
  NFT,
  startTestApi,
  VAULT,
} from "../../support/api.ts";
import {
  DESKTOP,
  describeInBrowser,
  expectAccessible,
  findHeading,
  PHONE,
  readRows,
  readText,
  waitUntilFocused,
  walletPath,
} from "../../support/browser.ts";
import { startHeldBackfill } from "../../support/indexed-chain.ts";
import { connectClient, waitUntil } from "../../support/setup.ts";

const NOBODY = "0x0000000000000000000000000000000000000123";

const waitForNotice = (page: Page, title: string | RegExp) => findHeading(page, title).waitFor();

describeInBrowser("the explorer", (open, site) => {
  test("shows every change in a wallet's history, newest first", async () => {
    const page = await open(walletPath(VAULT, "history"));
    const rows = await readRows(page, ".timeline > li");
    const readKinds = (party: string) =>
      rows.flatMap((row) => (row.includes(party) ? [`${row.split(" ")[0]} ${/v[12]/.exec(row)}`] : []));
    expect(rows.filter((row) => row.startsWith("Changed")).join()).toContain("250,000");
    expect(readKinds(GONE)).toEqual([
      "Revoked v1",
      "Made v1",
      "Revoked v1",
      "Made v1",
      "Revoked v2",
      "Made v2",
      "Revoked v2",
      "Made v2",
    ]);
  });

  test("loads more rows while scrolling, each once", async () => {
    const account = `0x${"a".repeat(40)}`;
    const delegates = Array.from({ length: 120 }, (_, index) =>
      getAddress(`0x${(index + 4096).toString(16).padStart(40, "0")}`),
    );
    const database = await connectClient(site.databaseUrl);
    await database.query("set session_replication_role = replica");
    await database.query(
      `insert into registry.delegation_v2
       select (jsonb_populate_record(row, jsonb_build_object('vault', $1::text, 'delegate', delegate, 'log_index', place))).*
       from (select row from registry.delegation_v2 row where chain_id = 1 and type = 'ALL' limit 1) one,
         unnest($2::text[]) with ordinality as made (delegate, place)`,
      [account, delegates.map((delegate) => delegate.toLowerCase())],
    );
    const page = await open(walletPath(account, "out"));
    await page.locator(".rows > li").first().waitFor();
    expect(await page.locator(".rows > li").count()).toBe(50);
    const scroll = async () => {
      await page.keyboard.press("End");
      return readText(page.locator(".list-end"));
    };
    await waitUntil("all rows are shown", scroll, 20, (end) => end === "120 delegations");
    const shown = new Set((await readRows(page)).map((row) => /0x\w{40}/.exec(row)?.[0]));
    expect(shown).toEqual(new Set(delegates));
  });

  test("gives every view its own URL, and back and forward lead through them", async () => {
    const page = await open("/");
    await page.getByLabel("Wallet").fill(VAULT.toLowerCase());
    await page.getByRole("button", { name: "Look up" }).click();
    await waitForNotice(page, "No delegations");
    const views = page.getByRole("navigation", { name: "Views of this wallet" });
    await views.getByRole("link", { name: "Represented by" }).click();
    await readRows(page);
    await page.getByLabel("Network").selectOption("Polygon");
    await page.getByText("on Polygon").waitFor();
    const shared = page.url();
    expect(new URL(shared).searchParams.get("chainId")).toBe("137");
    await views.getByRole("link", { name: "History" }).click();
    await readRows(page, ".timeline > li");

    await page.goBack();
    expect(page.url()).toBe(shared);
    const rows = await readRows(page);
    await page.goBack();
    await page.getByText("on Ethereum").waitFor();
    await page.goBack();
    await waitForNotice(page, "No delegations");
    await page.goForward();
    await readRows(page);

    const other = await open(shared.slice(site.url.length));
    expect((await readRows(other)).map((row) => /0x\w{40}.*rights?/i.exec(row)?.[0])).toEqual(
      rows.map((row) => /0x\w{40}.*rights?/i.exec(row)?.[0]),
    );
    expect(await other.title()).toContain(`${VAULT.slice(0, 6)}…${VAULT.slice(-4)}`);
  });

  test("shows for whom a wallet may act with a token or by a right, then and now, on one network and on all", async () => {
    const page = await open(walletPath(GUEST, "in"));
    const all = await readRows(page);
    await page.getByText("For a contract or token, or at a past block").click();
    const form = page.getByRole("form", { name: "Filter" });
    const apply = () => form.getByRole("button", { name: "Apply" }).click();
    await form.getByLabel("Token id").fill("8520");
    await apply();
    await page.getByText("Contract: a token is one of a contract.").waitFor();
    await form.getByLabel("Contract").fill(NFT);
    await apply();
    await waitUntil(
      "the list is filtered",
      async () => (await readRows(page)).length,
      10,
      (rows) => rows < all.length,
    );
    const filtered = await readRows(page);
    expect(filtered.every((row) => row.includes(VAULT) && row.includes("8520"))).toBe(true);
    expect(new URL(page.url()).searchParams.get("tokenId")).toBe("8520");
    await expectAccessible(page);

    await form.getByLabel("At block").fill("1");
    await apply();
    await waitForNotice(page, "No delegations");
    await page.getByLabel("Network").selectOption("All networks");
    await page.getByText("on all networks").waitFor();
    expect(await readRows(page), "the block of one network is left").toHaveLength(2 * filtered.length);
    await form.getByLabel("At time").fill("2020-01-01T00:00");
    await apply();
    await waitForNotice(page, "No delegations");
    await page.getByLabel("Network").selectOption("Ethereum");
    expect(await readRows(page), "the time is left").toHaveLength(filtered.length);
    await page.getByRole("link", { name: "Represented by" }).click();
    await waitForNotice(page, "No delegations");
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByRole("link", { name: "Acts for", exact: true }).click();
    await waitUntil(
      "all are shown",
      async () => (await readRows(page)).length,
      10,
      (rows) => rows === all.length,
    );
  });

  test("shows an address with its checksum, and copies all of it", async () => {
    const page = await open(walletPath(VAULT.toLowerCase(), "out"), {
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await page.getByRole("heading", { name: VAULT }).waitFor();
    await page
      .getByRole("button", { name: `Copy wallet ${HOT.slice(0, 6)}…${HOT.slice(-4)}` })
      .first()
      .click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(HOT);
  });

  test.for([
    ["light", "in", walletPath(HOT, "in")],
    ["dark", "out", walletPath(VAULT, "out")],
    ["light", "history", walletPath(VAULT, "history")],
    ["dark", "history", walletPath(VAULT, "history")],
    ["light", "check", `/?view=check&chainId=1&registry=v2&type=all&to=${HOT}&from=${VAULT}`],
    ["dark", "check", `/?view=check&chainId=1&registry=v2&type=all&to=${GUEST}&from=${VAULT}`],
  ] as const)("is accessible, %s: %s", async ([colorScheme, , path]) => {
    const page = await open(path, { colorScheme });
    await page.locator(".freshness").waitFor();
    await expectAccessible(page);
    await page.setViewportSize(PHONE);
    await expectAccessible(page);
  });

  test("can be used by keyboard alone, with the focus always visible", async () => {
    const page = await open("/");
    await page.locator(".networks li").first().waitFor();
    const focusedText = () => page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id");
    const press = async (key: string) => {
      await page.keyboard.press(key);
      const outline = await page.evaluate(
        "(({ activeElement }) => activeElement === document.body ? 'body' : getComputedStyle(activeElement).outlineStyle)(document)",
      );
      expect(outline, String(await focusedText())).toBe("solid");
    };
    await press("Tab");
    expect(await focusedText()).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    await press("Tab");
    expect(await focusedText()).toBe("wallet");
    await page.keyboard.type(VAULT);
    await page.keyboard.press("Enter");
    await waitForNotice(page, "No delegations");
    for (let tabs = 0; (await focusedText()) !== "Represented by"; tabs++) {
      if (tabs > 10) throw new Error("The link to outgoing delegations cannot be reached.");
      await press("Tab");
    }
    await page.keyboard.press("Enter");
    const rows = await readRows(page);
    // Tab reaches every transaction.
    const reached = new Set<string>();
    for (let tabs = 0; tabs < rows.length * 6 && reached.size < rows.length; tabs++) {
      await press("Tab");
      const href = await page.evaluate("document.activeElement.href ?? ''");
      if (String(href).includes("/tx/")) reached.add(String(href));
    }
    expect(reached.size).toBe(rows.length);
  });
});

describeInBrowser("a check in the explorer", (open) => {
  test("names every delegation that grants it, the broadest first", async () => {
    const page = await open(
      `/?view=check&registry=v2&type=contract&to=${FRIEND}&from=${VAULT}&contract=${NFT}&rights=${AIRDROP}`,
    );
    const grants = await readRows(page, ".grants > li");
    expect(grants.map((text) => text.split(/ (?=0x|Right|All)/)[0])).toEqual(["Whole wallet", "Contract"]);
    expect(await readText(page.locator(".verdict"))).toContain("with the right");
  });

  test("shows an amount without limit as unlimited", async () => {
    const page = await open(`/?view=check&registry=v2&type=erc20&to=${HOT}&from=${VAULT}&contract=${COIN}`);
    await waitForNotice(page, "Unlimited");
    expect(await readRows(page, ".grants > li")).toHaveLength(1);
  });

  test("explains a bad field beside it, and moves the focus there", async () => {
    const page = await open("/?view=check");
    await page.getByText("ERC-721 token", { exact: true }).click();
    await page.locator("#to").fill("vitalik.eth");
    await page.locator("#from").fill(VAULT);
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByText("Names cannot be looked up here").waitFor();
    await page.getByText("A token id is a whole number").waitFor();
    await waitUntilFocused(page, "to");
    await expectAccessible(page);
  });
});

describeInBrowser("instead of an answer, the explorer shows", (open, site) => {
  const expectNotice = async (page: Page, title: string | RegExp) => {
    await waitForNotice(page, title);
    await expectAccessible(page);
  };

  test("that a wallet has no delegations, and at which block", async () => {
    const page = await open(walletPath(NOBODY, "in"));
    await expectNotice(page, "No delegations");
    await page.locator(".freshness").waitFor();
    await page.getByRole("link", { name: "history", exact: true }).click();
    await expectNotice(page, "No history");
  });

  test("that a network is not indexed, and which are", async () => {
    const page = await open(walletPath(VAULT, "out", 8453), { colorScheme: "dark" });
    await expectNotice(page, "Base is not indexed here");
    await page.locator(".notice").getByRole("link", { name: "Polygon" }).click();
    await readRows(page);
    await page.goto(walletPath(VAULT, "out", 31_337_000));
    await expectNotice(page, "There is no registry on this network");
  });

  test("that the input is no wallet address", async () => {
    const page = await open("/?wallet=0x123");
    await expectNotice(page, "This is not a wallet address");
    await page.getByLabel("Wallet").fill("somebody.eth");
    await page.getByRole("button", { name: "Look up" }).click();
    await page.getByRole("alert").getByText("Names cannot be looked up here").waitFor();
  });

  test("how long to wait over the rate limit, then the answer", async () => {
    const api = await startTestApi({
      databaseUrl: site.databaseUrl,
      env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "2", RATE_LIMIT_WINDOW_SECONDS: "6" },
    });
    const page = await open(walletPath(VAULT, "out"), { url: api.url, allowed: /429/ });
    await readRows(page);
    await page.getByRole("link", { name: "History" }).click();
    await readRows(page, ".timeline > li");
    await page.getByRole("link", { name: "Acts for", exact: true }).click();
    await expectNotice(page, "One moment, please");
    await page.getByText(/Trying again in \d s/).waitFor();
    await waitForNotice(page, "No delegations");
  });

  test("how far a network is indexed, then the answer; and that an index is behind its network", async () => {
    const { databaseUrl, api, release } = await startHeldBackfill();
    await waitUntil("the indexer has published its progress", async () =>
      (await (await api.get("/networks")).text()).includes('"indexing"'),
    );

    const page = await open(walletPath(NOBODY, "in", 8453), { url: api.url, allowed: /503/ });
    await expectNotice(page, "Base is still being indexed");
    await page.getByRole("progressbar").waitFor();
    await page.getByText(/Block \d+ of 3\d is indexed/).waitFor();
    release();
    await page.getByRole("heading", { name: "No delegations" }).waitFor({ timeout: 100_000 });

    // The chain has no new blocks, so its index exceeds a strict lag limit.
    const strict = await startTestApi({ databaseUrl, env: { MAX_INDEX_LAG_SECONDS: "1" } });
    // Blocks mined faster than one a second have timestamps in the future.
    await waitUntil("its newest block is in the past", async () => !(await strict.get("/ready")).ok, 120);
    const behind = await open(walletPath(NOBODY, "in", 8453), { url: strict.url, allowed: /503/ });
    await expectNotice(behind, "The index is behind its network");
  }, 200_000);

  test("that the service cannot be reached, then the answer", async () => {
    const api = await launchApi({ databaseUrl: site.databaseUrl, env: FRESH_FOR_A_DAY });
    onTestFinished(() => api.stop());
    const page = await open(walletPath(VAULT, "out"), {
      url: api.url,
      allowed: /ERR_(INTERNET_DISCONNECTED|CONNECTION)/,
    });
    await readRows(page);
    await page.context().setOffline(true);
    await page.getByRole("link", { name: "History" }).click();
    await expectNotice(page, "The service cannot be reached");
    await page.context().setOffline(false);
    await page.getByRole("button", { name: "Try again" }).click();
    await readRows(page, ".timeline > li");
    await api.stop();
    await page.getByRole("link", { name: "Represented by" }).click();
    await expectNotice(page, "The service cannot be reached");
  });
});

/** Answers the page's requests for the newest changes in place of the service. */
const answerNewest = (answer: (route: Route) => Promise<void>) => async (page: Page) => {
  await page.route("**/insights/newest", answer);
};

describeInBrowser("the start page", (open, site) => {
  test.for([
    ["light", DESKTOP],
    ["light", PHONE],
    ["dark", DESKTOP],
    ["dark", PHONE],
  ] as const)(
    "shows the newest changes without moving anything, accessible, %s, %o",
    async ([colorScheme, viewport]) => {
      let finishLoading = () => {};
      const loaded = new Promise<void>((resolve) => {
        finishLoading = resolve;
      });
      const prepare = answerNewest((route) => loaded.then(() => route.continue()));
      const page = await open("/", { colorScheme, viewport, prepare });
      const list = page.locator(".newest ol");
      await list.waitFor();
      const before = await list.boundingBox();
      await expectAccessible(page);
      finishLoading();
      await page.locator(".newest a").first().waitFor();
      await page.locator(".networks li").first().waitFor();
      expect(await list.boundingBox()).toEqual(before);
      await expectAccessible(page);
    },
  );

  test("leads to a change's wallet by keyboard", async () => {
    const page = await open("/");
    const href = await page.locator(".newest a").first().getAttribute("href");
    await page.getByRole("button", { name: "Look up" }).focus();
    await page.keyboard.press("Tab");
    expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).toBe("solid");
    await page.keyboard.press("Enter");
    await readRows(page, ".timeline > li");
    expect(page.url()).toBe(`${site.url}${href}`);
  });

  test("says that there are no changes yet, or why they cannot be shown", async () => {
    const prepare = answerNewest((route) => route.fulfill({ json: { newest: [] } }));
    const page = await open("/", { allowed: /503/, prepare });
    await page.getByText("There are no changes to show yet.").waitFor();
    await expectAccessible(page);
    const problem = { type: "/docs#problem-overloaded", title: "Overloaded", status: 503, detail: "Not ready yet." };
    const headers = { "Retry-After": "1" };
    await answerNewest((route) => route.fulfill({ status: 503, headers, json: problem }))(page);
    await page.reload();
    await waitForNotice(page, "The service is busy");
    await page.locator(".networks li").first().waitFor();
    await expectAccessible(page);
    await page.unrouteAll();
    await readRows(page, ".newest a");
  });

  test("is painted within a second", async () => {
    const page = await open("/");
    const times: number[] = [];
    for (let round = 0; round < 3; round++) {
      await page.reload();
      await page.locator(".networks li").first().waitFor();
      times.push(Number(await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")));
    }
    // The best of three, because the machine may be busy.
    expect(Math.min(...times)).toBeLessThan(1000);
  });
});
