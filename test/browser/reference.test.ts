import { expect, test } from "vitest";
import { HOT, VAULT } from "../support/api.ts";
import { describeInBrowser } from "../support/browser.ts";

describeInBrowser("trying the API in its reference", (open) => {
  test("sends what the form says, and shows the answer as it came, with its headers", async () => {
    const page = await open("/docs#v2CheckAll");
    const form = page.locator("#v2CheckAll form");
    expect(await form.locator('[name="to"]').inputValue()).toBe(HOT);
    expect(await form.locator('[name="from"]').inputValue()).toBe(VAULT);
    await form.getByRole("button", { name: "Send request" }).click();
    const result = form.locator(".result");
    await result.getByText("200 OK").waitFor();
    expect(await result.getByRole("group", { name: "Answer" }).allInnerTexts()).toEqual(["true"]);
    await result.getByText("X-Indexed-Block", { exact: true }).waitFor();
  });

  test("tells what a problem means", async () => {
    const page = await open("/docs", { allowed: /400/ });
    const form = page.locator("#v2CheckAll form");
    await form.locator('[name="to"]').fill("0x123");
    await form.getByRole("button", { name: "Send request" }).click();
    await form.getByRole("link", { name: "What this problem means" }).click();
    expect(new URL(page.url()).hash).toBe("#problem-bad-parameter");
  });
});
