import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { NFT } from "../support/api.ts";
import { DESKTOP, describeInBrowser, expectAccessible, PHONE } from "../support/browser.ts";

const heading = (page: Page, name: string | RegExp) => page.getByRole("heading", { name });

/** The number in a tile. */
const tile = (page: Page, what: string): Promise<string | null> =>
  page
    .locator(".tile", { has: page.getByText(what, { exact: true }) })
    .locator("dd")
    .textContent();

/** Which series of the legend a chart has bars of: what is drawn in their colours. */
const drawnSeries = (page: Page, chart: number): Promise<boolean[]> =>
  page.evaluate(`(() => {
    const canvas = document.querySelectorAll(".chart canvas")[${chart}];
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return [...document.querySelectorAll(".legend .swatch")].map((swatch) => {
      const color = getComputedStyle(swatch).backgroundColor.match(/\\d+/g).map(Number);
      let pixels = 0;
      for (let place = 0; place < data.length; place += 4) {
        const isSame = color.every((value, channel) => Math.abs(value - data[place + channel]) <= 8);
        if (isSame && data[place + 3] > 200) pixels++;
      }
      return pixels > 10;
    });
  })()`);

/** What the service would say, to the page alone. */
const answerWith = async (
  page: Page,
  path: string,
  answer: { status?: number; body?: object; headers?: object } | null,
) => {
  await page.unroute(`**${path}`);
  await page.route(`**${path}`, (route) =>
    answer === null
      ? route.abort()
      : route.fulfill({
          status: answer.status ?? 200,
          contentType: answer.status ? "application/problem+json" : "application/json",
          headers: { ...answer.headers },
          body: JSON.stringify(answer.body ?? {}),
        }),
  );
};

/** Counted so many seconds ago. */
const nothing = (seconds: number) => ({
  readAt: Math.floor(Date.now() / 1000) - seconds,
  totals: { made: 0, changed: 0, revoked: 0, active: 0 },
  networks: [],
  days: [],
  weeks: [],
  contracts: [],
});

describeInBrowser("insights", (open) => {
  test.for([
    ["light", PHONE],
    ["light", DESKTOP],
    ["dark", PHONE],
    ["dark", DESKTOP],
  ] as const)("draws what happened, with the numbers in tables, %s, %o", async ([colorScheme, viewport]) => {
    const page = await open("/insights", { colorScheme, viewport });
    await heading(page, "Activity").waitFor();
    expect(Number((await tile(page, "Ever made"))?.replace(",", ""))).toBeGreaterThanOrEqual(46);
    expect(await tile(page, "Networks up to date")).toBe("2 of 2");
    expect(await page.locator(".legend li").allInnerTexts()).toEqual(expect.arrayContaining(["Ethereum", "Polygon"]));
    // A colour for each network; the contracts are all of the first.
    expect(await drawnSeries(page, 0)).toEqual([true, true]);
    expect(await drawnSeries(page, 1)).toEqual([true, false]);
    for (const chart of await page.locator("canvas").all()) {
      expect(await chart.getAttribute("aria-label")).toMatch(/The table below has the numbers\.$/);
    }

    for (const summary of await page.locator("details summary").all()) await summary.click();
    const contracts = page.getByRole("region", { name: "Most delegated contracts" }).locator("table tbody tr");
    expect(await contracts.first().textContent()).toContain(NFT);
    expect(await page.getByRole("region", { name: "Activity per day" }).locator("tbody tr").count()).toBe(1);
    await expectAccessible(page);
    const root = "document.documentElement";
    expect(await page.evaluate(`${root}.scrollWidth - ${root}.clientWidth`), "scrolls sideways").toBe(0);
  });

  test("shows other times and groupings, by keys alone", async () => {
    const page = await open("/insights");
    await heading(page, "Activity").waitFor();
    for (const name of ["All time", "By type"]) {
      const choice = page.getByRole("button", { name });
      await choice.focus();
      await page.keyboard.press("Enter");
      expect(await choice.getAttribute("aria-pressed")).toBe("true");
    }
    expect(await page.locator(".legend li").allInnerTexts()).toEqual(
      expect.arrayContaining([
        "Whole wallet",
        "Contract",
        "Token (v1)",
        "ERC721 token",
        "ERC20 amount",
        "ERC1155 amount",
      ]),
    );
    expect(await drawnSeries(page, 0)).toEqual(Array(6).fill(true));
    await page.locator("#activity").locator("xpath=ancestor::section").locator("summary").click();
    expect(await page.getByRole("region", { name: "Activity per week" }).locator("thead").textContent()).toContain(
      "From week",
    );
  });

  test("draws charts anew when the theme changes", async () => {
    const page = await open("/insights", { colorScheme: "light" });
    await heading(page, "Activity").waitFor();
    const picture = () =>
      page
        .locator(".chart canvas")
        .first()
        .evaluate((canvas) => (canvas as unknown as { toDataURL: () => string }).toDataURL());
    const light = await picture();
    await page.getByRole("button", { name: "Dark theme" }).click();
    await expect.poll(picture).not.toBe(light);
  });

  test("says what is the matter where there is nothing to draw", async () => {
    const page = await open("/insights", { allowed: /Failed to load resource/ });
    await heading(page, "Activity").waitFor();

    await answerWith(page, "/insights/data", { body: nothing(5) });
    await page.reload();
    await heading(page, "Nothing has been delegated yet").waitFor();
    await expectAccessible(page);

    await answerWith(page, "/insights/data", {
      body: nothing(400),
      headers: { Age: "400" },
    });
    await page.reload();
    await heading(page, "These figures are old").waitFor();
    expect(await page.locator("main").textContent()).toContain("6 minutes ago");

    await answerWith(page, "/insights/data", {
      status: 503,
      headers: { "Retry-After": "1" },
      body: { type: "/docs#problem-not-indexed", title: "Not indexed yet", status: 503, detail: "Not yet." },
    });
    await page.reload();
    await heading(page, "Still indexing").waitFor();
    await expectAccessible(page);

    await answerWith(page, "/insights/data", null);
    await heading(page, "The service cannot be reached").waitFor();
    // When it is back, one click is enough.
    await page.unroute("**/insights/data");
    await page.getByRole("button", { name: "Try again" }).click();
    await heading(page, "Activity").waitFor();
  });
});
