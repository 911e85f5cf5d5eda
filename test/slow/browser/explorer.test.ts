import type { Client } from "pg";
import type { Page, Route } from "playwright-core";
import { getAddress } from "viem";
import { expect } from "vitest";
import {
  AIRDROP,
  COIN,
  FRESH_FOR_A_DAY,
  FRIEND,
  GONE,
  GUEST,
  HOT,
  NFT,
  startTestApi,
  VAULT,
} from "../../support/api.ts";
import {
  DARK_DESKTOP,
  DARK_PHONE,
  expectAccessible,
  expectAccessibleOn,
  findHeading,
  LIGHT_DESKTOP,
  LIGHT_PHONE,
  readRows,
  readText,
  SCREENS,
  test,
  waitUntilFocused,
  walletPath,
} from "../../support/browser.ts";
import { addBlock } from "../../support/changes.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { startHeldBackfill } from "../../support/indexed-chain.ts";
import { parseMetrics, readValue } from "../../support/metrics.ts";
import { describeWithPrograms } from "../../support/run.ts";
import { waitUntil } from "../../support/setup.ts";

const NOBODY = "0x0000000000000000000000000000000000000123";

const waitForNotice = (page: Page, title: string | RegExp) => findHeading(page, title).waitFor();

describeWithPrograms(["chromium"], "the explorer", () => {
  test("shows every change in a wallet's history, newest first", async ({ open }) => {
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

  test("loads more rows while scrolling, each once", async ({ api, database, open }) => {
    const account = `0x${"a".repeat(40)}`;
    const delegates = Array.from({ length: 120 }, (_, index) =>
      getAddress(`0x${(index + 4096).toString(16).padStart(40, "0")}`),
    );
    await database.query("set session_replication_role = replica");
    await database.query(
      `insert into registry.delegation_v2
       select (jsonb_populate_record(row, jsonb_build_object('vault', $1::text, 'delegate', delegate, 'log_index', place))).*
       from (select row from registry.delegation_v2 row where chain_id = 1 and type = 'ALL' limit 1) one,
         unnest($2::text[]) with ordinality as made (delegate, place)`,
      [account, delegates.map((delegate) => delegate.toLowerCase())],
    );
    const page = await open(walletPath(account, "out"), { url: api.url });
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

  test("gives every view its own URL, and back and forward lead through them", async ({ site, open }) => {
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

  test("shows for whom a wallet may act with a token or by a right, then and now, on one network and on all", async ({
    open,
  }) => {
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

  test("shows an address with its checksum, and copies all of it", async ({ open }) => {
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

  const CHECK_ALL = "/?view=check&chainId=1&registry=v2&type=all";
  const LIGHT = [LIGHT_DESKTOP, LIGHT_PHONE];
  const DARK = [DARK_DESKTOP, DARK_PHONE];
  test.for([
    [walletPath(HOT, "in"), LIGHT],
    [walletPath(VAULT, "out"), DARK],
    [walletPath(VAULT, "history"), SCREENS],
    [`${CHECK_ALL}&to=${HOT}&from=${VAULT}`, LIGHT],
    [`${CHECK_ALL}&to=${GUEST}&from=${VAULT}`, DARK],
  ] as const)("is accessible: %s", async ([path, screens], { open }) => {
    const page = await open(path);
    await page.locator(".freshness").waitFor();
    await expectAccessibleOn(page, screens);
  });

  test("can be used by keyboard alone, with the focus always visible", async ({ open }) => {
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

describeWithPrograms(["chromium"], "a check in the explorer", () => {
  test("names every delegation that grants it, the broadest first", async ({ open }) => {
    const page = await open(
      `/?view=check&registry=v2&type=contract&to=${FRIEND}&from=${VAULT}&contract=${NFT}&rights=${AIRDROP}`,
    );
    const grants = await readRows(page, ".grants > li");
    expect(grants.map((text) => text.split(/ (?=0x|Right|All)/)[0])).toEqual(["Whole wallet", "Contract"]);
    expect(await readText(page.locator(".verdict"))).toContain("with the right");
  });

  test("shows an amount without limit as unlimited", async ({ open }) => {
    const page = await open(`/?view=check&registry=v2&type=erc20&to=${HOT}&from=${VAULT}&contract=${COIN}`);
    await waitForNotice(page, "Unlimited");
    expect(await readRows(page, ".grants > li")).toHaveLength(1);
  });

  test("explains a bad field beside it, and moves the focus there", async ({ open }) => {
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

describeWithPrograms(["chromium"], "instead of an answer, the explorer shows", () => {
  const expectNotice = async (page: Page, title: string | RegExp) => {
    await waitForNotice(page, title);
    await expectAccessible(page);
  };

  test("that a wallet has no delegations, and at which block", async ({ open }) => {
    const page = await open(walletPath(NOBODY, "in"));
    await expectNotice(page, "No delegations");
    await page.locator(".freshness").waitFor();
    await page.getByRole("link", { name: "history", exact: true }).click();
    await expectNotice(page, "No history");
  });

  test("that a network is not indexed, and which are", async ({ open }) => {
    const page = await open(walletPath(VAULT, "out", 8453), { colorScheme: "dark" });
    await expectNotice(page, "Base is not indexed here");
    await page.locator(".notice").getByRole("link", { name: "Polygon" }).click();
    await readRows(page);
    await page.goto(walletPath(VAULT, "out", 31_337_000));
    await expectNotice(page, "There is no registry on this network");
  });

  test("that the input is no wallet address", async ({ open }) => {
    const page = await open("/?wallet=0x123");
    await expectNotice(page, "This is not a wallet address");
    await page.getByLabel("Wallet").fill("somebody.eth");
    await page.getByRole("button", { name: "Look up" }).click();
    await page.getByRole("alert").getByText("Names cannot be looked up here").waitFor();
  });

  test("how long to wait over the rate limit, then the answer", async ({ databaseUrl, open }) => {
    let now = 0;
    const api = await startTestApi({
      databaseUrl,
      // Two lists, and the stream of changes.
      env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "3", RATE_LIMIT_WINDOW_SECONDS: "3" },
      now: () => now,
    });
    const page = await open(walletPath(VAULT, "out"), { url: api.url, allowed: /429/ });
    await readRows(page);
    await page.getByRole("link", { name: "History" }).click();
    await readRows(page, ".timeline > li");
    await page.getByRole("link", { name: "Acts for", exact: true }).click();
    await expectNotice(page, "One moment, please");
    await page.getByText(/Trying again in \d s/).waitFor();
    now = 3_000;
    await waitForNotice(page, "No delegations");
  });

  test("how far a network is indexed, then the answer", async ({ open }) => {
    const { api, release } = await startHeldBackfill();
    await waitUntil("the indexer has published its progress", async () =>
      (await (await api.get("/networks")).text()).includes('"indexing"'),
    );
    const page = await open(walletPath(NOBODY, "in", 8453), { url: api.url, allowed: /503/ });
    await expectNotice(page, "Base is still being indexed");
    await page.getByRole("progressbar").waitFor();
    await page.getByText(/Block \d+ of 3\d is indexed/).waitFor();
    release();
    await page.getByRole("heading", { name: "No delegations" }).waitFor({ timeout: 100_000 });
  });

  test("that an index is behind its network", async ({ databaseUrl, open }) => {
    const api = await startTestApi({ databaseUrl, env: { MAX_INDEX_LAG_SECONDS: "1" } });
    // The index has no new blocks. It is behind when its newest block is older than a second.
    await waitUntil("the index is behind", async () => !(await api.get("/ready")).ok);
    const page = await open(walletPath(NOBODY, "in"), { url: api.url, allowed: /503/ });
    await expectNotice(page, "The index is behind its network");
  });

  test("that the service cannot be reached, then the answer", async ({ databaseUrl, open }) => {
    const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    const allowed = /ERR_(INTERNET_DISCONNECTED|CONNECTION)/;
    const page = await open(walletPath(VAULT, "out"), { url: api.url, allowed });
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

const STRANGER = getAddress("0x00000000000000000000000000000000000bEEf1");

/** Replaces a block by one without changes. */
const removeBlock = async (database: Client, block: number): Promise<void> => {
  const schema = await readServedSchema(database);
  await database.query(`delete from ${schema}.delegation_change where chain_id = 1 and block_number = $1`, [block]);
};

/** A page of a headless browser is never hidden. */
const makeHideable = async (page: Page): Promise<void> => {
  await page.addInitScript(
    "window.isHidden = false; Object.defineProperty(document, 'hidden', { get: () => window.isHidden })",
  );
};

const setHidden = (page: Page, isHidden: boolean) =>
  page.evaluate(`window.isHidden = ${isHidden}; void document.dispatchEvent(new Event("visibilitychange"))`);

/** Answers the page's requests for the newest changes in place of the service. */
const answerNewest = (answer: (route: Route) => Promise<void>) => async (page: Page) => {
  await page.route("**/insights/newest", answer);
};

describeWithPrograms(["chromium"], "the start page", () => {
  test.for([
    [LIGHT_DESKTOP, DARK_DESKTOP],
    [LIGHT_PHONE, DARK_PHONE],
  ] as const)("shows the newest changes without moving anything, accessible, %o", async (screens, { open }) => {
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const prepare = answerNewest((route) => released.then(() => route.continue()));
    const page = await open("/", { ...screens[0], prepare });
    const list = page.locator(".newest ol");
    await list.waitFor();
    const before = await list.boundingBox();
    await expectAccessibleOn(page, screens);
    release();
    await page.locator(".newest a").first().waitFor();
    await page.locator(".networks li").first().waitFor();
    expect(await list.boundingBox()).toEqual(before);
    await expectAccessibleOn(page, screens);
  });

  test("leads to a change's wallet by keyboard", async ({ site, open }) => {
    const page = await open("/");
    const href = await page.locator(".newest a").first().getAttribute("href");
    await page.getByRole("button", { name: "Look up" }).focus();
    await page.keyboard.press("Tab");
    expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).toBe("solid");
    await page.keyboard.press("Enter");
    await readRows(page, ".timeline > li");
    expect(page.url()).toBe(`${site.url}${href}`);
  });

  test("says that there are no changes yet, or why they cannot be shown", async ({ open }) => {
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

  test("shows a change when it comes, takes it back after a reorg, and follows nothing while hidden", async ({
    api,
    database,
    open,
  }) => {
    const page = await open("/", { url: api.url, prepare: makeHideable });
    await page.getByText("Live", { exact: true }).waitFor();
    const before = await readRows(page, ".newest li");
    const block = await addBlock(database, STRANGER);
    await page.locator(".newest li").first().getByTitle(STRANGER).waitFor();
    expect(await page.locator(".newest [aria-live=polite]").textContent()).toBe("1 new change.");
    expect(await page.locator(".newest li").count()).toBe(before.length);
    // In the middle of it, with another theme, a row has the colors of both.
    await page.evaluate(
      "Promise.all(document.querySelector('.arrived').getAnimations().map(({ finished }) => finished)).then(() => {})",
    );
    await expectAccessibleOn(page, SCREENS);

    await removeBlock(database, block);
    await page.getByTitle(STRANGER).waitFor({ state: "detached" });
    expect(await page.locator(".newest [aria-live=polite]").textContent()).toBe("1 new change. 1 change was undone.");

    const readStreams = async () => readValue(parseMetrics(await api.metrics()), "changes_readers");
    expect(await readStreams()).toBe(1);
    await setHidden(page, true);
    await waitUntil("the stream is closed", readStreams, 20, (streams) => streams === 0);
    const hidden = await addBlock(database, STRANGER);
    await setHidden(page, false);
    await page.locator(".newest li").first().getByTitle(STRANGER).waitFor();
    await removeBlock(database, hidden);
    await page.goto("/insights");
    await waitUntil("the stream is closed", readStreams, 20, (streams) => streams === 0);
  });

  test("goes on after refusals where it was, and starts again if it cannot", async ({ api, database, open }) => {
    const prepare = async (page: Page) => {
      await makeHideable(page);
      await page.clock.install();
    };
    const page = await open("/", { url: api.url, allowed: /503|400/, prepare });
    /** Has the page follow changes again, which is refused, and lets it try again. */
    const refuse = async (status: number, isRefused: (url: URL) => boolean) => {
      let refused = 0;
      await page.route(
        (url) => url.pathname === "/changes" && isRefused(url),
        (route) => {
          refused++;
          return route.fulfill({ status, json: {} });
        },
      );
      await setHidden(page, false);
      await waitUntil("it is refused", () => refused);
    };
    const passMinutesUntil = (what: string, isDone: () => Promise<boolean>) =>
      waitUntil(what, async () => {
        await page.clock.fastForward(60_000);
        return isDone();
      });
    const first = page.locator(".newest li.arrived").first().getByTitle(STRANGER);
    await page.getByText("Live", { exact: true }).waitFor();
    const block = await addBlock(database, STRANGER);
    await first.waitFor();
    await setHidden(page, true);
    await removeBlock(database, block);
    await refuse(503, () => true);
    await page.unrouteAll();
    await passMinutesUntil("it has heard of the reorg", async () => (await page.getByTitle(STRANGER).count()) === 0);

    const kept = await addBlock(database, STRANGER);
    await first.waitFor();
    await setHidden(page, true);
    await refuse(400, ({ searchParams }) => searchParams.has("cursor"));
    await passMinutesUntil("it is live", () => page.getByText("Live", { exact: true }).isVisible());
    expect(await page.locator(".newest li.arrived").count()).toBe(0);
    await removeBlock(database, kept);
  });

  test("offers to update a wallet's list when it has changed", async ({ api, database, open }) => {
    const page = await open(walletPath(STRANGER, "history"), { url: api.url });
    await waitForNotice(page, "No history");
    await page.locator(".news[data-live=true]").waitFor({ state: "attached" });
    const block = await addBlock(database, STRANGER);
    const update = page.getByRole("status").getByRole("button", { name: "Update" });
    await update.waitFor();
    await expectAccessibleOn(page, SCREENS);
    await update.click();
    expect(await readRows(page, ".timeline > li")).toHaveLength(1);
    await update.waitFor({ state: "detached" });
    await removeBlock(database, block);
    await update.click();
    await waitForNotice(page, "No history");
  });

  test("is painted within a second, or ten times as long as a page of text on a busy machine", async ({ open }) => {
    const page = await open("/", { allowed: /favicon/ });
    const readPaintTime = async (path: string) => {
      const times: number[] = [];
      for (let round = 0; round < 3; round++) {
        await page.goto(path);
        const entries = "performance.getEntriesByName('first-contentful-paint')";
        await waitUntil("it is painted", () => page.evaluate(`${entries}.length`));
        times.push(Number(await page.evaluate(`${entries}[0].startTime`)));
      }
      return Math.min(...times);
    };
    const plain = await readPaintTime("/health");
    expect(await readPaintTime("/")).toBeLessThan(Math.max(1000, 10 * plain));
  });
});
