import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished } from "vitest";
import { type Api, createSampleDatabase, FRESH_FOR_A_DAY, launchApi, NFT } from "./api.ts";
import { findProgram } from "./programs.ts";
import { waitUntil } from "./until.ts";

const CHROMIUM = findProgram("chromium");
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Launches Debian's Chromium. The caller closes it. */
export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM ?? "chromium", args: FLAGS });

export const PHONE = { width: 390, height: 844 };
export const DESKTOP = { width: 1280, height: 900 };

type OpenOptions = Pick<BrowserContextOptions, "colorScheme" | "viewport" | "permissions" | "javaScriptEnabled"> & {
  /** Origin of the page. Default: the API over the sample data. */
  url?: string;
  /** Console messages to ignore, such as a failed request. */
  allowed?: RegExp;
  /** Runs before the page loads. */
  prepare?: (page: Page) => Promise<void>;
};

/** Opens a path in a new browser context. */
type Open = (path: string, options?: OpenOptions) => Promise<Page>;

/** The API over the sandbox's sample data that serves the pages of a test file. */
type Site = { url: string; databaseUrl: string };

/** Runs tests in a real browser. Skips them without one; their title then says why. */
export const describeInBrowser = (title: string, tests: (open: Open, site: Site) => void) =>
  describe.skipIf(CHROMIUM === null)(
    CHROMIUM === null ? `${title} [LEFT OUT: needs chromium, as by apt-get install chromium]` : title,
    () => {
      let browser: Browser;
      let api: Api;
      const site = { url: "", databaseUrl: "" };
      beforeAll(async () => {
        site.databaseUrl = await createSampleDatabase();
        api = await launchApi({ databaseUrl: site.databaseUrl, env: FRESH_FOR_A_DAY });
        site.url = api.url;
        browser = await launchBrowser();
      });
      afterAll(async () => {
        await browser?.close();
        await api?.stop();
      });
      tests((path, options) => openPage(browser, path, { url: site.url, ...options }), site);
    },
  );

/** Collects errors, including violations of the content security policy, and requests to other origins. */
const watchPage = (page: Page, origin: string, allowed: RegExp | undefined): readonly string[] => {
  const errors: string[] = [];
  const add = (text: string) => {
    if (!allowed?.test(text)) errors.push(text);
  };
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) add(`${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => add(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`)) errors.push(`Request to another origin: ${request.url()}`);
  });
  return errors;
};

const openPage = async (
  browser: Browser,
  path: string,
  { url, allowed, prepare, ...options }: OpenOptions & { url: string },
): Promise<Page> => {
  const context = await browser.newContext({ baseURL: url, viewport: DESKTOP, ...options });
  const page = await context.newPage();
  const errors = watchPage(page, url, allowed);
  onTestFinished(async () => {
    await context.close();
    expect(errors, "errors, policy violations, requests to other origins").toEqual([]);
  });
  await prepare?.(page);
  await page.goto(path);
  return page;
};

/** Expects no serious violation of the accessibility rules that axe checks, and no scrolling sideways. */
export const expectAccessible = async (page: Page): Promise<void> => {
  await page.evaluate(axe.source);
  const found: { id: string; impact: string; help: string; nodes: { html: string; failureSummary: string }[] }[] =
    await page.evaluate("axe.run().then(({ violations }) => violations)");
  const serious = found.filter(({ impact }) => impact === "serious" || impact === "critical");
  const described = serious.map(({ id, help, nodes }) => ({
    id,
    help,
    nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => `${html}\n${failureSummary}`),
  }));
  expect(described).toEqual([]);
  const root = "document.documentElement";
  expect(await page.evaluate(`${root}.scrollWidth - ${root}.clientWidth`), "scrolls sideways").toBe(0);
};

export const findHeading = (page: Page, name: string | RegExp) => page.getByRole("heading", { name });

export const readText = async (locator: Locator) => (await locator.allInnerTexts()).join("\n");

// The explorer.

export const walletPath = (wallet: string, view: string, chainId = 1) =>
  `/?wallet=${wallet}&chainId=${chainId}&view=${view}`;

/** Reads the text of each row of a list, on one line. */
export const readRows = async (page: Page, selector = ".rows > li"): Promise<string[]> => {
  await page.locator(selector).first().waitFor();
  return (await page.locator(selector).allInnerTexts()).map((text) => text.replace(/\s+/g, " "));
};

// The developer page.

export const signInWithWallet = async (page: Page): Promise<void> => {
  await page.getByRole("button", { name: /^Sign in with/ }).click();
  await findHeading(page, "Your keys").waitFor();
};

export const makeKeyOnPage = async (page: Page, name: string): Promise<string> => {
  await page.getByLabel("Name of a new key").fill(name);
  await page.getByRole("button", { name: "Make a key" }).click();
  const shown = page.getByRole("region", { name: `The key for “${name}”` });
  return (await shown.locator("pre").first().textContent()) ?? "";
};

export const waitUntilFocused = (page: Page, id: string) =>
  waitUntil(
    `focus is on ${id}`,
    () => page.evaluate("document.activeElement.id"),
    10,
    (focused) => focused === id,
  );

// The insights page.

/** For each series of the legend, true if a chart has bars in its colour. */
export const readDrawnSeries = (page: Page, chart: number): Promise<boolean[]> =>
  page.evaluate(`(() => {
    const canvas = document.querySelectorAll(".chart canvas")[${chart}];
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return [...document.querySelectorAll(".legend .swatch")].map((swatch) => {
      const color = getComputedStyle(swatch).backgroundColor.match(/\\d+/g).map(Number);
      let pixels = 0;
      for (let offset = 0; offset < data.length; offset += 4) {
        const isSame = color.every((value, channel) => Math.abs(value - data[offset + channel]) <= 8);
        if (isSame && data[offset + 3] > 200) pixels++;
      }
      return pixels > 10;
    });
  })()`);

type ActivityDay = { start: string; made: number; revoked: number };

/** Expects the insights page to show the sample data, in charts and in tables. */
export const expectSampleInsights = async (page: Page): Promise<void> => {
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
  expect(await page.getByRole("region", { name: "Activity per day" }).locator("tbody tr").count()).toBe(active.size);
  await expectAccessible(page);
};
