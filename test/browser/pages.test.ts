import { expect, test } from "vitest";
import { PAGES } from "../../web/pages.ts";
import { DESKTOP, describeInBrowser, expectAccessible, PHONE } from "../support/browser.ts";

// What holds for every page in the table.

describeInBrowser("every page", (open) => {
  for (const { path, title, links } of PAGES) {
    test.for([
      ["light", PHONE],
      ["dark", DESKTOP],
    ] as const)(`${path} can be used by everybody, %s`, async ([colorScheme, viewport]) => {
      const page = await open(path, { colorScheme, viewport });
      expect(await page.title()).toContain(title);
      await page.locator("main h1").waitFor();
      await expectAccessible(page);
      const root = "document.documentElement";
      expect(await page.evaluate(`${root}.scrollWidth - ${root}.clientWidth`), "scrolls sideways").toBe(0);
    });

    test(`${path} is in the navigation of every page`, async () => {
      for (const other of PAGES) {
        const page = await open(other.path);
        for (const { label, href } of links) {
          const link = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: label, exact: true });
          expect(await link.getAttribute("href")).toBe(href);
        }
      }
    });
  }

  test("the theme is the system's, until somebody chooses another; that stays", async () => {
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
});
