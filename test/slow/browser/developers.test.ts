import { expect } from "vitest";
import {
  test as base,
  createBrowserWallet,
  DARK_DESKTOP,
  expectAccessible,
  expectAccessibleOn,
  findHeading,
  LIGHT_PHONE,
  makeKeyOnPage,
  signInWithWallet,
  waitUntilFocused,
} from "../../support/browser.ts";
import { startHttp } from "../../support/http.ts";
import { describeWithPrograms } from "../../support/run.ts";
import { waitUntil } from "../../support/setup.ts";

const test = base.extend("site", ({ api }) => api);

describeWithPrograms(["chromium"], "the developer page", () => {
  test("keeps its session in a cookie that no script can read, over reloads", async ({ developerPage: page }) => {
    expect(await page.evaluate("document.cookie")).toBe("");
    const session = (await page.context().cookies()).find(({ name }) => name === "delegations-session");
    expect(session).toMatchObject({ httpOnly: true, sameSite: "Strict", path: "/" });
    await page.reload();
    await findHeading(page, "Your keys").waitFor();
  });

  // Another port of the same host is another origin but the same site: browsers send the cookie there.
  const OTHER_HOSTS = ["localhost", "127.0.0.1"];
  test.for(OTHER_HOSTS)(
    "a page of another origin, on %s, cannot use the cookie",
    async (host, { site, developerPage: page }) => {
      const { url } = await startHttp((_, response) => response.setHeader("Content-Type", "text/html").end("<p>Hello"));
      const evil = await page.context().newPage();
      await evil.goto(url.replace("127.0.0.1", host));
      const attempts = await evil.evaluate(`(async () => {
      const baseUrl = ${JSON.stringify(`${site.url}/developers/api/`)};
      const send = (path, init) => fetch(baseUrl + path, { credentials: "include", ...init }).then(() => "read", () => "blocked");
      return [
        await send("keys"),
        await send("session", { method: "DELETE" }),
        await send("keys", { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"name":"theirs"}' }),
        await send("keys", { method: "POST", headers: { "Content-Type": "text/plain" }, body: '{"name":"theirs"}' }),
        await send("keys", { method: "POST", mode: "no-cors", body: '{"name":"theirs"}' }).then(() => "blocked"),
      ];
    })()`);
      expect(attempts).toEqual(Array(5).fill("blocked"));
      // A form needs no script.
      await evil.setContent(
        `<form method="post" enctype="text/plain" action="${site.url}/developers/api/keys"><input name='{"name":"theirs","x":"' value='"}'></form>`,
      );
      const posted = evil.waitForResponse(/\/developers\/api\/keys$/);
      await evil.evaluate("document.forms[0].submit()");
      expect((await posted).status()).toBe(403);
      await page.reload();
      await page.getByText("No keys yet").waitFor();
    },
  );

  test("shows the name of a wallet that announces itself (EIP-6963)", async ({ open }) => {
    const page = await open("/developers", createBrowserWallet({ name: "Example Wallet" }));
    await page.getByRole("button", { name: "Sign in with Example Wallet" }).click();
    await findHeading(page, "Your keys").waitFor();
  });

  test("says what to do without a wallet", async ({ open }) => {
    const page = await open("/developers");
    await findHeading(page, "No wallet found in this browser").waitFor();
    await expectAccessible(page);
  });

  test("says that a declined signature changed nothing, and lets the user try again", async ({ open, wallet }) => {
    wallet.isWilling = false;
    const page = await open("/developers", wallet);
    await page.getByRole("button", { name: /^Sign in with/ }).click();
    await page.getByRole("alert").filter({ hasText: "You declined in your wallet" }).waitFor();
    wallet.isWilling = true;
    await signInWithWallet(page);
  });

  test("asks to sign in again after the session has ended", async ({ database, open, wallet }) => {
    const page = await open("/developers", { ...wallet, allowed: /status of 401/ });
    await signInWithWallet(page);
    await database.query("delete from service.session where owner = $1", [wallet.account.address.toLowerCase()]);
    await page.getByLabel("Name of a new key").fill("too late");
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.getByRole("alert").filter({ hasText: "Your session has ended" }).waitFor();
    await signInWithWallet(page);
  });

  test("makes no key without a name, and no more than 5 for a wallet", async ({ developerPage: page }) => {
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.getByRole("alert").filter({ hasText: "Give it a name" }).waitFor();
    for (let number = 1; number <= 5; number++) {
      await makeKeyOnPage(page, `Key ${number}`);
      await page.getByRole("button", { name: "I have stored it" }).click();
      await page.getByText(`${number} of 5`).waitFor();
    }
    await page.getByText("All 5 of this wallet's keys are in use.").waitFor();
    expect(await page.getByLabel("Name of a new key").count()).toBe(0);
  });

  test("says that the service cannot be reached, and goes on when it can", async ({ open, wallet }) => {
    const page = await open("/developers", { ...wallet, allowed: /ERR_FAILED|Failed to load/ });
    const button = page.getByRole("button", { name: /^Sign in with/ });
    await button.waitFor();
    await page.route("**/developers/api/**", (route) => route.abort());
    await button.click();
    await page.getByRole("alert").filter({ hasText: "cannot be reached" }).waitFor();
    await page.reload();
    await findHeading(page, "The service cannot be reached").waitFor();
    await page.unroute("**/developers/api/**");
    await page.getByRole("button", { name: "Try again" }).click();
    await signInWithWallet(page);
  });

  test("leads to the address where users sign in, from another one", async ({ open, wallet }) => {
    const page = await open("/developers", wallet);
    await page.route("**/developers/api/session", (route) =>
      route.fulfill({ json: { origin: "https://api.example", session: null } }),
    );
    await page.reload();
    const link = page.getByRole("link", { name: "Go to api.example" });
    expect(await link.getAttribute("href")).toBe("https://api.example/developers");
    await page.route("**/developers/api/session", (route) => route.fulfill({ json: { origin: null, session: null } }));
    await page.reload();
    await findHeading(page, "Nobody can sign in here yet").waitFor();
  });

  test("is accessible with a new key, a list, and a dialog", async ({ open, wallet }) => {
    const screens = [LIGHT_PHONE, DARK_DESKTOP];
    const page = await open("/developers", wallet);
    await page.getByRole("button", { name: /^Sign in with/ }).waitFor();
    await expectAccessibleOn(page, screens);
    await signInWithWallet(page);
    await makeKeyOnPage(page, "Example app of the team with the long name, on its second server");
    await expectAccessibleOn(page, screens);
    await page.getByRole("button", { name: /^Revoke/ }).click();
    await page.getByRole("dialog").waitFor();
    await expectAccessibleOn(page, screens);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
  });

  test("can be used by keyboard alone", async ({ open, wallet }) => {
    const page = await open("/developers", wallet);
    await page.getByRole("button", { name: /^Sign in with/ }).focus();
    await page.keyboard.press("Enter");
    await waitUntilFocused(page, "keys-title");
    await page.keyboard.press("Tab");
    await page.keyboard.type("By keyboard");
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "The key for “By keyboard”" }).waitFor();
    await waitUntilFocused(page, "made-key");
    await page.getByRole("button", { name: "I have stored it" }).press("Enter");
    await waitUntilFocused(page, "keys-title");
    await page.getByRole("button", { name: "Revoke By keyboard" }).press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    // The focus is restored before the close event, which removes the dialog.
    await page.locator("dialog").waitFor({ state: "detached" });
    const focusedText = () => page.evaluate("document.activeElement.textContent");
    await waitUntil("focus is back on the button", async () => (await focusedText()) === "Revoke");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Revoke key" }).press("Enter");
    await page.getByText("No keys yet").waitFor();
    await waitUntilFocused(page, "keys-title");
    await page.getByRole("button", { name: "Sign out" }).press("Enter");
    await waitUntilFocused(page, "sign-in-title");
  });
});
