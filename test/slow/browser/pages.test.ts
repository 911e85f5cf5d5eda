import { expect, test } from "vitest";
import { PAGES } from "../../../web/pages.ts";
import { describeInBrowser, expectAccessible } from "../../support/browser.ts";

describeInBrowser("every page", (open) => {
  test.for(PAGES)("$path is accessible on a desktop with the dark theme", async ({ path }) => {
    const page = await open(path, { colorScheme: "dark" });
    await page.locator("main h1").waitFor();
    await expectAccessible(page);
  });

  test("has the system's theme, until the user chooses another; the choice stays", async () => {
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

  test("the reference explains the problem that a form's request met", async () => {
    const page = await open("/docs", { allowed: /400/ });
    const form = page.locator("#v2CheckAll form");
    await form.locator('[name="to"]').fill("0x123");
    await form.getByRole("button", { name: "Send request" }).click();
    await form.getByRole("link", { name: "What this problem means" }).click();
    expect(new URL(page.url()).hash).toBe("#problem-bad-parameter");
  });
});
