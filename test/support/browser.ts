import axe from "axe-core";
import { type BrowserContextOptions, chromium, type Locator, type Page } from "playwright-core";
import type { Hex } from "viem";
import { expect, onTestFinished } from "vitest";
import { createWallet } from "./developers.ts";
import { findProgram } from "./run.ts";
import { waitUntil } from "./setup.ts";
import { test as base } from "./test.ts";

const PHONE = { width: 390, height: 844 };
const DESKTOP = { width: 1280, height: 900 };

type Screen = { colorScheme: "light" | "dark"; viewport: typeof PHONE };

export const LIGHT_PHONE: Screen = { colorScheme: "light", viewport: PHONE };
export const DARK_PHONE: Screen = { colorScheme: "dark", viewport: PHONE };
export const LIGHT_DESKTOP: Screen = { colorScheme: "light", viewport: DESKTOP };
export const DARK_DESKTOP: Screen = { colorScheme: "dark", viewport: DESKTOP };
export const SCREENS = [LIGHT_PHONE, DARK_PHONE, LIGHT_DESKTOP, DARK_DESKTOP];

type OpenOptions = Pick<BrowserContextOptions, "colorScheme" | "viewport" | "permissions"> & {
  /** Origin of the page. Default: that of `site`. */
  url?: string;
  /** Console messages to ignore, such as a failed request. */
  allowed?: RegExp;
  /** Runs before the page loads. */
  prepare?: (page: Page) => Promise<void>;
};

/**
 * Tests of pages in Debian's Chromium. `open` opens a path of `site` in a new browser context. `site` is `samples`; a file
 * that changes data says `base.extend("site", ({ api }) => api)`.
 */
export const test = base
  .extend("browser", { scope: "worker" }, async ({}, { onCleanup }) => {
    const browser = await chromium.launch({ executablePath: findProgram("chromium") ?? "chromium" });
    onCleanup(() => browser.close());
    return browser;
  })
  .extend("site", { scope: "file" }, ({ samples }) => samples)
  .extend(
    "open",
    ({ browser, site }) =>
      async (path: string, { url = site.url, allowed, prepare, ...options }: OpenOptions = {}): Promise<Page> => {
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
      },
  )
  /** A wallet in the browser of a developer: `open("/developers", wallet)`. */
  .extend("wallet", () => createBrowserWallet())
  /** The developer page after `wallet` has signed in. */
  .extend("developerPage", async ({ open, wallet }) => {
    const page = await open("/developers", wallet);
    await signInWithWallet(page);
    return page;
  });

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

/** Expects a page to be accessible on each of these screens, one after the other. */
export const expectAccessibleOn = async (page: Page, screens: readonly Screen[]): Promise<void> => {
  for (const { colorScheme, viewport } of screens) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(viewport);
    await expectAccessible(page);
  }
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

type Call = { method: string; params?: [Hex, string] };

/**
 * Creates a browser wallet with a real key. It signs every message, or declines if `isWilling` is false. With a name it
 * announces itself (EIP-6963), without one it sets `window.ethereum`.
 */
export const createBrowserWallet = ({ chainId = 1, name }: { chainId?: number; name?: string } = {}) => {
  const account = createWallet();
  const wallet = { account, isWilling: true, signed: [] as string[] };

  const answer = async ({ method, params }: Call): Promise<{ result: unknown } | { error: object }> => {
    if (!wallet.isWilling) return { error: { code: 4001, message: "User rejected the request." } };
    switch (method) {
      case "eth_requestAccounts":
        return { result: [account.address] };
      case "eth_chainId":
        return { result: `0x${chainId.toString(16)}` };
      case "personal_sign": {
        const [raw = "0x"] = params ?? [];
        wallet.signed.push(Buffer.from(raw.slice(2), "hex").toString());
        return { result: await account.signMessage({ message: { raw } }) };
      }
      default:
        return { error: { code: 4200, message: `${method} is not supported.` } };
    }
  };

  const prepare = async (page: Page): Promise<void> => {
    await page.exposeFunction("askTestWallet", answer);
    await page.addInitScript(`
      const provider = { request: async (call) => {
        const answer = await window.askTestWallet(call);
        if (answer.error) throw answer.error;
        return answer.result;
      } };
      const name = ${JSON.stringify(name ?? null)};
      if (name === null) window.ethereum = provider;
      else {
        const info = { uuid: "350670db-19fa-4704-a166-e52e178b59d2", name, icon: "data:,", rdns: "example.wallet" };
        const detail = Object.freeze({ info, provider });
        const announce = () => window.dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
        window.addEventListener("eip6963:requestProvider", announce);
        announce();
      }`);
  };
  return Object.assign(wallet, { prepare });
};

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
