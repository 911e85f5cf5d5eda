import type { Page } from "playwright-core";
import { expect } from "vitest";
import { expectAccessible, findHeading, readDrawnSeries, test } from "../../support/browser.ts";
import { describeWithPrograms } from "../../support/run.ts";

/** Answers the page's requests for figures in place of the service, from now on. null: aborts them. */
const mockFigures = (
  page: Page,
  response: { status?: number; json: object; headers?: Record<string, string> } | null,
) => page.route("**/insights/data", (route) => (response === null ? route.abort() : route.fulfill(response)));

/** Figures of an empty index. */
const emptyInsights = (ageSeconds: number) => ({
  readAt: Math.floor(Date.now() / 1000) - ageSeconds,
  totals: { made: 0, changed: 0, revoked: 0, active: 0 },
  networks: [],
  days: [],
  weeks: [],
  contracts: [],
});

describeWithPrograms(["chromium"], "the insights page", () => {
  test("shows other times and groupings, by keyboard alone", async ({ open }) => {
    const page = await open("/insights");
    await findHeading(page, "Activity").waitFor();
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
    expect(await readDrawnSeries(page, 0)).toEqual(Array(6).fill(true));
    await page.locator("#activity").locator("xpath=ancestor::section").locator("summary").click();
    expect(await page.getByRole("region", { name: "Activity per week" }).locator("thead").textContent()).toContain(
      "From week",
    );
  });

  test("redraws the charts when the theme changes", async ({ open }) => {
    const page = await open("/insights", { colorScheme: "light" });
    await findHeading(page, "Activity").waitFor();
    const picture = () =>
      page
        .locator(".chart canvas")
        .first()
        .evaluate((canvas) => (canvas as unknown as { toDataURL: () => string }).toDataURL());
    const light = await picture();
    await page.getByRole("button", { name: "Dark theme" }).click();
    await expect.poll(picture).not.toBe(light);
  });

  test("says why there is nothing to draw: no delegations, old figures, still indexing, service unreachable", async ({
    open,
  }) => {
    const page = await open("/insights", { allowed: /Failed to load resource/ });
    await findHeading(page, "Activity").waitFor();

    await mockFigures(page, { json: emptyInsights(5) });
    await page.reload();
    await findHeading(page, "Nothing has been delegated yet").waitFor();
    await expectAccessible(page);

    await mockFigures(page, { json: emptyInsights(400), headers: { Age: "400" } });
    await page.reload();
    await findHeading(page, "These figures are old").waitFor();
    expect(await page.locator("main").textContent()).toContain("6 minutes ago");

    const problem = { type: "/docs#problem-not-indexed", title: "Not indexed yet", status: 503, detail: "Not yet." };
    await mockFigures(page, { status: 503, headers: { "Retry-After": "1" }, json: problem });
    await page.reload();
    await findHeading(page, "Still indexing").waitFor();
    await expectAccessible(page);

    await mockFigures(page, null);
    await findHeading(page, "The service cannot be reached").waitFor();
    await page.unroute("**/insights/data");
    await page.getByRole("button", { name: "Try again" }).click();
    await findHeading(page, "Activity").waitFor();
  });
});
