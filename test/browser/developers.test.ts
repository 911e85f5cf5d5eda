import { createServer } from "node:http";
import type { Page } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { findFreePort } from "../../stack/ports.ts";
import { DESKTOP, describeInBrowser, expectAccessible, PHONE, sandbox } from "../support/browser.ts";
import { createBrowserWallet } from "../support/browser-wallet.ts";
import { connect, until } from "../support/setup.ts";

const signIn = async (page: Page): Promise<void> => {
  await page.getByRole("button", { name: /^Sign in with/ }).click();
  await page.getByRole("heading", { name: "Your keys" }).waitFor();
};

/** The id of what has the focus. */
const focused = (page: Page) => page.evaluate("document.activeElement.id");

const makeKey = async (page: Page, name: string): Promise<string> => {
  await page.getByLabel("Name of a new key").fill(name);
  await page.getByRole("button", { name: "Make a key" }).click();
  const shown = page.getByRole("region", { name: `The key for “${name}”` });
  return (await shown.locator("pre").first().textContent()) ?? "";
};

/** Somebody else's server. */
const serveEmptyPage = async (): Promise<number> => {
  const server = createServer((_, response) => response.setHeader("Content-Type", "text/html").end("<p>Hello"));
  onTestFinished(() => void server.close());
  const port = await findFreePort();
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return port;
};

const ask = (key: string) =>
  fetch(`${sandbox().url}/registry/v2/0x70997970C51812dc3A010C7d01b50e0d17dc79C8`, { headers: { "X-API-KEY": key } });

describeInBrowser("the developer page", (open) => {
  test("a wallet signs in, makes a key, uses it, sees its use, and revokes it: then it is refused", async () => {
    const wallet = createBrowserWallet({ chainId: 31337 });
    const page = await open("/developers", {
      ...wallet,
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await signIn(page);
    expect(wallet.signed).toEqual([expect.stringContaining(`${new URL(sandbox().url).host} wants you to sign in`)]);
    await page.getByText("No keys yet").waitFor();

    const key = await makeKey(page, "Example app");
    expect(key).toMatch(/^delreg_[0-9A-Za-z]{38}$/);
    const made = page.getByRole("region", { name: "The key for “Example app”" });
    await until("focus is on the key", async () => (await focused(page)) === "made-key");
    await made.getByRole("button", { name: /^Copy key/ }).click();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key);

    // What it says to run, runs: here, and in this page.
    const [, curl = "", fetched = ""] = await made.locator("pre").allInnerTexts();
    expect(curl).toBe(`curl -H "X-API-KEY: ${key}" "${sandbox().url}/registry/v2/${wallet.account.address}"`);
    expect(await page.evaluate(`(async () => { ${fetched}; return response.status })()`)).toBe(200);
    expect((await ask(key)).status).toBe(200);

    await made.getByRole("button", { name: "I have stored it" }).click();
    expect(await page.content()).not.toContain(key);
    await until("its use is shown", async () => {
      await page.reload();
      const row = page.getByRole("listitem").filter({ hasText: "Example app" });
      await row.waitFor();
      return (
        (await row.getByRole("img").getAttribute("aria-label"))?.startsWith("2 requests in the last 30 days") ?? false
      );
    });

    await page.getByRole("button", { name: "Revoke Example app" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Keep it" }).click();
    expect((await ask(key)).status).toBe(200);
    await page.getByRole("button", { name: "Revoke Example app" }).click();
    await dialog.getByRole("button", { name: "Revoke key" }).click();
    await page.getByText("No keys yet").waitFor();
    expect((await ask(key)).status).toBe(401);
    await page.getByText("1 revoked key").click();
    await page.getByText("revoked today").waitFor();

    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in with your wallet" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Sign in with your wallet" }).waitFor();
  });

  test("no script of the page can read the cookie, and it stays over reloads", async () => {
    const page = await open("/developers", createBrowserWallet());
    await signIn(page);
    expect(await page.evaluate("document.cookie")).toBe("");
    const session = (await page.context().cookies()).find(({ name }) => name === "delegations-session");
    expect(session).toMatchObject({ httpOnly: true, sameSite: "Strict", path: "/" });
    await page.reload();
    await page.getByRole("heading", { name: "Your keys" }).waitFor();
  });

  // On the same machine, another port is another origin of the same site: there the cookie is sent.
  test.each(["localhost", "127.0.0.1"])(
    "a page of another origin, on %s, gets nothing with the cookie",
    async (host) => {
      const page = await open("/developers", createBrowserWallet());
      await signIn(page);
      const evil = await page.context().newPage();
      await evil.goto(`http://${host}:${await serveEmptyPage()}/`);
      const attempts = await evil.evaluate(`(async () => {
      const at = ${JSON.stringify(`${sandbox().url}/developers/api/`)};
      const send = (path, init) => fetch(at + path, { credentials: "include", ...init }).then(() => "read", () => "kept out");
      return [
        await send("keys"),
        await send("session", { method: "DELETE" }),
        await send("keys", { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"name":"theirs"}' }),
        await send("keys", { method: "POST", headers: { "Content-Type": "text/plain" }, body: '{"name":"theirs"}' }),
        await send("keys", { method: "POST", mode: "no-cors", body: '{"name":"theirs"}' }).then(() => "kept out"),
      ];
    })()`);
      expect(attempts).toEqual(Array(5).fill("kept out"));
      // Nor what needs no script: a form that posts.
      await evil.setContent(
        `<form method="post" enctype="text/plain" action="${sandbox().url}/developers/api/keys"><input name='{"name":"theirs","x":"' value='"}'></form>`,
      );
      const posted = evil.waitForResponse(/\/developers\/api\/keys$/);
      await evil.evaluate("document.forms[0].submit()");
      expect((await posted).status()).toBe(403);
      await page.reload();
      await page.getByText("No keys yet").waitFor();
    },
  );

  test("a wallet that announces itself is called by its name", async () => {
    const page = await open("/developers", createBrowserWallet({ name: "Example Wallet" }));
    await page.getByRole("button", { name: "Sign in with Example Wallet" }).click();
    await page.getByRole("heading", { name: "Your keys" }).waitFor();
  });

  test("who has no wallet is told what to do", async () => {
    const page = await open("/developers");
    await page.getByRole("heading", { name: "No wallet found in this browser" }).waitFor();
    await expectAccessible(page);
  });

  test("who declines is told that nothing has happened, and can try again", async () => {
    const wallet = createBrowserWallet();
    wallet.isWilling = false;
    const page = await open("/developers", wallet);
    await page.getByRole("button", { name: /^Sign in with/ }).click();
    await page.getByRole("alert").filter({ hasText: "You declined in your wallet" }).waitFor();
    wallet.isWilling = true;
    await signIn(page);
  });

  test("whose session is over signs in again", async () => {
    const wallet = createBrowserWallet();
    const page = await open("/developers", { ...wallet, allowed: /status of 401/ });
    await signIn(page);
    const database = await connect(sandbox().databaseUrl);
    await database.query("delete from service.session where owner = $1", [wallet.account.address.toLowerCase()]);
    await page.getByLabel("Name of a new key").fill("too late");
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.getByRole("alert").filter({ hasText: "Your session is over" }).waitFor();
    await signIn(page);
  });

  test("who has all keys that a wallet may have is told so; a key without a name is not made", async () => {
    const page = await open("/developers", createBrowserWallet());
    await signIn(page);
    await page.getByRole("button", { name: "Make a key" }).click();
    await page.getByRole("alert").filter({ hasText: "Give it a name" }).waitFor();
    for (let number = 1; number <= 5; number++) {
      await makeKey(page, `Key ${number}`);
      await page.getByRole("button", { name: "I have stored it" }).click();
      await page.getByText(`${number} of 5`).waitFor();
    }
    await page.getByText("All 5 of this wallet's keys are in use.").waitFor();
    expect(await page.getByLabel("Name of a new key").count()).toBe(0);
  });

  test("what is away is said, and the page goes on when it is back", async () => {
    const page = await open("/developers", { ...createBrowserWallet(), allowed: /ERR_FAILED|Failed to load/ });
    const button = page.getByRole("button", { name: /^Sign in with/ });
    await button.waitFor();
    await page.route("**/developers/api/**", (route) => route.abort());
    await button.click();
    await page.getByRole("alert").filter({ hasText: "cannot be reached" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "The service cannot be reached" }).waitFor();
    await page.unroute("**/developers/api/**");
    await page.getByRole("button", { name: "Try again" }).click();
    await signIn(page);
  });

  test("at another address it leads to the one where people sign in", async () => {
    const page = await open("/developers", createBrowserWallet());
    await page.route("**/developers/api/session", (route) =>
      route.fulfill({ json: { origin: "https://api.example", session: null } }),
    );
    await page.reload();
    const link = page.getByRole("link", { name: "Go to api.example" });
    expect(await link.getAttribute("href")).toBe("https://api.example/developers");
    await page.route("**/developers/api/session", (route) => route.fulfill({ json: { origin: null, session: null } }));
    await page.reload();
    await page.getByRole("heading", { name: "Nobody can sign in here yet" }).waitFor();
  });

  test.for([
    ["light", PHONE],
    ["dark", DESKTOP],
  ] as const)(
    "can be used by everybody with a new key, a list, and a question, %s",
    async ([colorScheme, viewport]) => {
      const wallet = createBrowserWallet();
      const page = await open("/developers", { ...wallet, colorScheme, viewport });
      await page.getByRole("button", { name: /^Sign in with/ }).waitFor();
      await expectAccessible(page);
      await signIn(page);
      await makeKey(page, "Example app of the team with the long name, on its second server");
      await expectAccessible(page);
      const root = "document.documentElement";
      expect(await page.evaluate(`${root}.scrollWidth - ${root}.clientWidth`), "scrolls sideways").toBe(0);
      await page.getByRole("button", { name: /^Revoke/ }).click();
      await page.getByRole("dialog").waitFor();
      await expectAccessible(page);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "hidden" });
    },
  );

  test("needs no mouse", async () => {
    const page = await open("/developers", createBrowserWallet());
    await page.getByRole("button", { name: /^Sign in with/ }).focus();
    await page.keyboard.press("Enter");
    await until("focus is on the keys", async () => (await focused(page)) === "keys-title");
    await page.keyboard.press("Tab");
    await page.keyboard.type("By keyboard");
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "The key for “By keyboard”" }).waitFor();
    await until("focus is on the key", async () => (await focused(page)) === "made-key");
    await page.getByRole("button", { name: "I have stored it" }).press("Enter");
    await until("focus is on the keys again", async () => (await focused(page)) === "keys-title");
    await page.getByRole("button", { name: "Revoke By keyboard" }).press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    const focusedText = () => page.evaluate("document.activeElement.textContent");
    await until("focus is where it was", async () => (await focusedText()) === "Revoke");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Revoke key" }).press("Enter");
    await page.getByText("No keys yet").waitFor();
    await until("focus is on the keys once more", async () => (await focused(page)) === "keys-title");
    await page.getByRole("button", { name: "Sign out" }).press("Enter");
    await until("focus is on the way back", async () => (await focused(page)) === "sign-in-title");
  });
});
