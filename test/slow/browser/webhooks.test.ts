import { expect } from "vitest";
import {
  test as base,
  DARK_DESKTOP,
  expectAccessibleOn,
  findHeading,
  LIGHT_PHONE,
  signInWithWallet,
} from "../../support/browser.ts";
import { describeWithPrograms } from "../../support/run.ts";
import { waitUntil } from "../../support/setup.ts";
import { startReceiver, verify, WEBHOOKS_ON } from "../../support/webhooks.ts";

const test = base.extend("env", WEBHOOKS_ON).extend("site", ({ api }) => api);

describeWithPrograms(["chromium"], "webhooks on the developer page", () => {
  test("are made, tested, paused, resumed, given another secret and deleted", async ({ open, wallet }) => {
    // The browser reports the refused URL.
    const page = await open("/developers", { ...wallet, allowed: /400 \(Bad Request\)/ });
    await signInWithWallet(page);
    let status = 200;
    const receiver = await startReceiver(() => status);
    await page.getByLabel("URL of your server").fill("ftp://example.com");
    await page.getByRole("button", { name: "Make a webhook" }).click();
    await page.getByText(/url must be an http/).waitFor();
    await page.getByLabel("URL of your server").fill(receiver.url);
    await page.getByLabel("Contract").fill("0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D");
    await page.getByLabel("When").selectOption("latest");
    await page.getByRole("button", { name: "Make a webhook" }).click();
    const readSecret = () => page.locator(".made-key pre").textContent();
    const secret = (await readSecret()) ?? "";
    expect(secret).toMatch(/^whsec_/);
    await expectAccessibleOn(page, [LIGHT_PHONE, DARK_DESKTOP]);
    await page.getByRole("button", { name: "I have stored it" }).click();
    const card = page.locator(".webhook");
    expect(await card.textContent()).toContain("contract 0xbc4c…f13d, at once");

    await page.getByRole("button", { name: "Send a test" }).click();
    await card.locator(".delivery .good", { hasText: "200" }).waitFor();
    const [first] = receiver.received;
    if (!first) return expect.fail("No test has come.");
    expect(verify(secret, first)).toMatchObject({ type: "webhook.test" });
    await card.locator(".delivery summary").click();
    expect(await card.locator(".delivery pre").allInnerTexts()).toEqual([
      JSON.stringify(first.message, null, 2),
      "thanks",
    ]);
    await expectAccessibleOn(page, [LIGHT_PHONE, DARK_DESKTOP]);
    status = 500;
    await page.getByRole("button", { name: "Send again" }).click();
    await card.getByText("Answered 500, not 2xx.").waitFor();
    expect(receiver.received[1]?.headers["webhook-id"]).toBe(first.headers["webhook-id"]);

    await page.getByRole("button", { name: "Pause" }).click();
    await card.getByText("You paused it.").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await card.locator(".state", { hasText: "Active" }).waitFor();
    await page.getByRole("button", { name: "New secret" }).click();
    await waitUntil("another secret is shown", async () => (await readSecret()) !== secret);
    await page.getByRole("button", { name: "I have stored it" }).click();

    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete webhook" }).click();
    await card.waitFor({ state: "detached" });
    // Of keys and of webhooks.
    expect(await page.getByText("0 of 5", { exact: true }).count()).toBe(2);
    await page.reload();
    await findHeading(page, "Your webhooks").waitFor();
  });
});
