import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished } from "vitest";
import { findProgram } from "./programs.ts";

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

/** Debian's Chromium. Who asks for it closes it. */
export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM ?? "chromium", args: FLAGS });

/** The sandbox that all these tests look at, its database, and the RPC of its first chain. */
export const sandbox = () => ({
  url: inject("sandboxUrl"),
  databaseUrl: inject("sandboxDatabaseUrl"),
  chainUrl: inject("sandboxChainUrl"),
});

export const PHONE = { width: 390, height: 844 };
export const DESKTOP = { width: 1280, height: 900 };

type OpenOptions = Pick<BrowserContextOptions, "colorScheme" | "viewport" | "permissions" | "javaScriptEnabled"> & {
  /** What is being looked at; the sandbox by default. */
  url?: string;
  /** What may be said on the console, such as that the service cannot be reached. */
  allowed?: RegExp;
  /** What is done before anything is loaded. */
  prepare?: (page: Page) => Promise<void>;
};

/** Opens a path in a tab of its own. */
export type Open = (path: string, options?: OpenOptions) => Promise<Page>;

/** Tests in a real browser. Where there is none they are left out, and the line of each says why. */
export const describeInBrowser = (title: string, tests: (open: Open) => void) =>
  describe.skipIf(CHROMIUM === null)(
    CHROMIUM === null ? `${title} [LEFT OUT: needs chromium, as by apt-get install chromium]` : title,
    () => {
      let browser: Browser;
      beforeAll(async () => {
        browser = await launchBrowser();
      });
      afterAll(() => browser?.close());
      tests((path, options) => openPage(browser, path, options));
    },
  );

/** What a test fails for, whatever it looks at: errors, which violations of the policy are too, and requests to anybody else. */
const watchPage = (page: Page, origin: string, allowed: RegExp | undefined): readonly string[] => {
  const faults: string[] = [];
  const add = (text: string) => {
    if (!allowed?.test(text)) faults.push(text);
  };
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) add(`${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => add(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`)) faults.push(`Asked another origin: ${request.url()}`);
  });
  return faults;
};

const openPage = async (
  browser: Browser,
  path: string,
  { url, allowed, prepare, ...options }: OpenOptions = {},
): Promise<Page> => {
  const origin = url ?? sandbox().url;
  const context = await browser.newContext({ baseURL: origin, viewport: DESKTOP, ...options });
  const page = await context.newPage();
  const faults = watchPage(page, origin, allowed);
  onTestFinished(async () => {
    await context.close();
    expect(faults, "errors, violations of the policy, requests to other origins").toEqual([]);
  });
  await prepare?.(page);
  await page.goto(path);
  return page;
};

/** What keeps people from using a page as it is now, as far as a program can tell. */
export const expectAccessible = async (page: Page): Promise<void> => {
  await page.evaluate(axe.source);
  const found: { id: string; impact: string; help: string; nodes: { html: string; failureSummary: string }[] }[] =
    await page.evaluate("axe.run().then(({ violations }) => violations)");
  const serious = found.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, help, nodes }) => ({
    id,
    help,
    nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => `${html}\n${failureSummary}`),
  }));
  expect(told).toEqual([]);
};
