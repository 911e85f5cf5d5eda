import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { parseCsv } from "../../../web/checks/csv.ts";
import {
  type Api,
  COIN,
  FRESH_FOR_A_DAY,
  FRIEND,
  GUEST,
  HOT,
  NFT,
  OTHER,
  startTestApi,
  VAULT,
} from "../../support/api.ts";
import {
  expectAccessible,
  expectAccessibleOn,
  findHeading,
  LIGHT_PHONE,
  readText,
  SCREENS,
  test,
} from "../../support/browser.ts";
import { addKey } from "../../support/keys.ts";
import { describeWithPrograms } from "../../support/run.ts";

/** A busy machine may refuse a large body for a moment; the page sends it again. */
const BUSY = /503/;

const COLUMNS = ["note", "registry", "check", "to", "from", "contract", "tokenId", "rights", "chainId"] as const;

/** Lines of every kind, each with a note that has to come back as it is. */
const LINES: Partial<Record<(typeof COLUMNS)[number], string>>[] = [
  { note: 'Doe, "Jane"', registry: "v2", check: "all", to: HOT, from: VAULT },
  { note: "two\nlines", registry: "v2", check: "contract", to: FRIEND, from: VAULT, contract: NFT, chainId: "137" },
  {
    note: "-5",
    registry: "v2",
    check: "erc721",
    to: HOT,
    from: OTHER,
    contract: NFT,
    tokenId: String(2n ** 256n - 1n),
  },
  { registry: "v2", check: "erc20", to: HOT, from: OTHER, contract: COIN },
  { registry: "v2", check: "erc1155", to: GUEST, from: VAULT, contract: NFT, tokenId: "7", rights: "airdrop" },
  { registry: "v2", check: "erc1155", to: GUEST, from: VAULT, contract: NFT, tokenId: "7" },
  { registry: "v1", check: "all", to: GUEST, from: VAULT },
  { registry: "v1", check: "token", to: GUEST, from: VAULT, contract: NFT, tokenId: "0x2148" },
];

const quote = (text = "") => `"${text.replaceAll('"', '""')}"`;
const writeList = (lines: readonly (typeof LINES)[number][]) =>
  [COLUMNS, ...lines.map((line) => COLUMNS.map((name) => line[name]))].map((row) => row.map(quote).join()).join("\n");
const writeCopies = (count: number) => `to,from\n${`${HOT},${VAULT}\n`.repeat(count)}`;

const checkList = async (page: Page, text: string) => {
  await page.getByLabel("List", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Check the list" }).click();
};

const chooseFile = async (page: Page, text: string) => {
  const file = { name: "wallets.csv", mimeType: "text/csv", buffer: Buffer.from(text) };
  await page.getByLabel("Choose a file").setInputFiles(file);
  await page.getByText("wallets.csv").waitFor();
  await page.getByRole("button", { name: "Check the list" }).click();
};

const waitUntilDone = (page: Page) => findHeading(page, "Done").waitFor();
const readProgress = (page: Page) => readText(page.locator(".progress"));
const readCounts = (page: Page) => page.locator(".counts dd").allInnerTexts();

/** Downloads the answers. */
const download = async (page: Page) => {
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download CSV" }).click(),
  ]);
  expect(file.suggestedFilename()).toBe("answers.csv");
  const [header, ...rows] = parseCsv(await readFile(await file.path(), "utf8")).rows;
  return rows.map(({ fields }) => Object.fromEntries(fields.map((field, place) => [header?.fields[place], field])));
};

/** Asks for one check by itself. */
const askAlone = async (api: Api, { registry, check, to = "", from = "", note, ...others }: (typeof LINES)[number]) => {
  const parameters = new URLSearchParams({ ...others, delegate: to, vault: from });
  const response = await api.get(`/registry/${registry}/check/${check}?${parameters}`);
  return { result: await response.text(), block: response.headers.get("X-Indexed-Block") };
};

/** Starts an API whose rate-limit window does not end before release() is called. */
const startLimitedApi = async (databaseUrl: string, requests: number, seconds: number) => {
  let isHeld = true;
  const api = await startTestApi({
    databaseUrl,
    env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: String(requests), RATE_LIMIT_WINDOW_SECONDS: String(seconds) },
    now: () => (isHeld ? 0 : performance.now()),
  });
  const release = () => {
    isHeld = false;
  };
  return { url: api.url, release };
};

describeWithPrograms(["chromium"], "the page for lists", () => {
  test("answers a pasted list as single checks do, and returns its columns in the download", async ({
    samples,
    open,
  }) => {
    const page = await open("/checks");
    await checkList(page, writeList(LINES));
    await waitUntilDone(page);
    expect(await readProgress(page)).toContain(`${LINES.length} of ${LINES.length} answered`);
    const rows = await download(page);
    for (const [place, line] of LINES.entries()) {
      const fields = Object.fromEntries(COLUMNS.map((name) => [name, line[name] ?? ""]));
      expect(rows[place]).toEqual({ ...fields, ...(await askAlone(samples, line)), problem: "", final: "false" });
    }
    expect(rows.map(({ result }) => result)).toContain(String(2n ** 200n));
    expect(await readCounts(page)).toEqual(["4", "1", "2", "1", "0"]);
    expect(await readText(page.getByRole("row").nth(2))).toMatch(/true\s+Polygon \d+/);
  });

  test("answers for a past block, and refuses a number for several networks", async ({ open }) => {
    const page = await open("/checks");
    await page.getByLabel("Past block").fill("1");
    await checkList(page, writeList(LINES));
    await page.getByText("block must not be a number with checks on several networks").waitFor();
    await page.getByLabel("Past block").fill("latest");
    await page.getByRole("button", { name: "Try the sample" }).click();
    await page.getByText("block must be a block number in decimal digits, or finalized.").waitFor();
    await page.getByLabel("Past block").fill("0");
    await page.getByRole("button", { name: "Try the sample" }).click();
    await waitUntilDone(page);
    expect((await download(page)).map(({ result, block }) => `${result} ${block}`)).toEqual([
      "false 0",
      "false 0",
      "false 0",
      "0 0",
      "0 0",
      "false 0",
    ]);
  });

  test("answers 10,000 lines of a file, and shows the first 200", async ({ open }) => {
    const page = await open("/checks", { allowed: BUSY });
    await chooseFile(page, `\ufeff${writeCopies(10_000).replaceAll("\n", "\r\n")}`);
    await waitUntilDone(page);
    await page.getByText("10,000 of 10,000 answered").first().waitFor();
    await page.getByText("The first 200 of 10,000 lines. The download has all.").waitFor();
    expect(await page.locator("tbody tr").count()).toBe(200);
    const rows = await download(page);
    expect(rows.filter(({ result, to }) => result === "true" && to === HOT)).toHaveLength(10_000);
  });

  test("takes 10,000 pasted lines at once, after the text that is there", async ({ open }) => {
    const page = await open("/checks", { allowed: BUSY, permissions: ["clipboard-read", "clipboard-write"] });
    const [header, ...lines] = writeCopies(10_000).split("\n");
    await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(lines.join("\n"))})`);
    await page.getByLabel("List", { exact: true }).fill(`${header}\n`);
    await page.keyboard.press("Control+V");
    await page.getByText("Pasted list, 10,001 lines").waitFor();
    await page.getByRole("button", { name: "Check the list" }).click();
    await waitUntilDone(page);
    expect((await readCounts(page))[0]).toBe("10,000");
  });

  test("takes a file that is dropped on it", async ({ open }) => {
    const page = await open("/checks");
    await page.evaluate(`(() => {
      const data = new DataTransfer();
      data.items.add(new File([${JSON.stringify(writeCopies(3))}], "dropped.csv"));
      document.querySelector(".list-form").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
    })()`);
    await page.getByText("dropped.csv").waitFor();
    await page.getByRole("button", { name: "Check the list" }).click();
    await page.getByText("3 of 3 answered").first().waitFor();
  });

  test("names every bad line before it sends anything, and checks the others if asked", async ({ open }) => {
    const page = await open("/checks", LIGHT_PHONE);
    const sent: string[] = [];
    page.on("request", (request) => sent.push(request.method()));
    await checkList(page, `to,from,chainId\n${HOT},${VAULT},\n0x12,,\n\n${HOT},${VAULT},10\n=1+1,${VAULT},\n`);
    await findHeading(page, "3 problems in the list").waitFor();
    expect(await page.locator(".notice tbody tr").allInnerTexts()).toEqual([
      "3\tto must be 0x and 40 hex digits. vault is required (or its other name, from).",
      "5\tchainId names a network that is not indexed here; indexed are 1 (Ethereum), 137 (Polygon).",
      "6\tto must be 0x and 40 hex digits.",
    ]);
    expect(sent).not.toContain("POST");
    await expectAccessible(page);

    await page.getByRole("button", { name: "Check the rest (1 line)" }).click();
    await waitUntilDone(page);
    expect(await readCounts(page)).toEqual(["1", "0", "0", "0", "3"]);
    await page.getByLabel("Problems only").check();
    expect(await page.locator("tbody th").allInnerTexts()).toEqual(["3", "5", "6"]);
    const rows = await download(page);
    expect(rows.map(({ to, result, problem }) => [to, result, problem?.slice(0, 7)])).toEqual([
      [HOT, "true", ""],
      ["0x12", "", "to must"],
      [HOT, "", "chainId"],
      ["'=1+1", "", "to must"],
    ]);

    await checkList(page, `${HOT},${VAULT}\n`);
    await page.getByText("The first line must name the columns").waitFor();
  });

  test("keeps to the rate limit, and says how long it waits", async ({ databaseUrl, open }) => {
    const { url, release } = await startLimitedApi(databaseUrl, 5, 4);
    // The limit is lower than usual: the first body is too large, and counts as a request.
    const page = await open("/checks", { url, allowed: /429/ });
    await checkList(page, writeCopies(12));
    await page.getByText("Without an API key, 5 checks are answered in 4 s.").waitFor();
    expect(await readProgress(page)).toMatch(
      /^Checking\s+4 of 12 answered\s+.* in 4 s\. About 8 s left\. The next ones follow in [1-4] s\.\s+Stop$/,
    );
    expect(await page.getByRole("progressbar").getAttribute("value")).toBe("4");
    expect(await page.getByRole("status").textContent()).toBe("30 % answered");
    await expectAccessible(page);
    release();
    await waitUntilDone(page);
    expect(await readProgress(page)).toContain("12 of 12 answered");
    expect((await readCounts(page))[0]).toBe("12");
  });

  test("can be stopped, has the answers so far, and can go on", async ({ databaseUrl, open }) => {
    const { url, release } = await startLimitedApi(databaseUrl, 5, 4);
    const page = await open("/checks", { url, allowed: /429/ });
    await checkList(page, writeCopies(8));
    await page.getByText("4 of 8 answered").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await findHeading(page, "Stopped").waitFor();
    const answered = (await download(page)).map(({ result }) => result);
    expect(answered).toEqual([...new Array(4).fill("true"), ...new Array(4).fill("")]);
    release();
    await page.getByRole("button", { name: "Go on" }).click();
    await waitUntilDone(page);
    expect((await readCounts(page))[0]).toBe("8");
  });

  test("sends 1,000 checks at a time with a key, and stores the key nowhere", async ({
    databaseUrl,
    database,
    open,
  }) => {
    const { url } = await startLimitedApi(databaseUrl, 5, 60);
    const { key } = await addKey(database);
    const page = await open("/checks", { url, allowed: /401|503/ });
    await page.getByLabel("API key").fill("delreg_unknown");
    await chooseFile(page, writeCopies(2_500));
    await findHeading(page, "Interrupted").waitFor();
    expect(await readProgress(page)).toMatch(/0 of 2,500 answered[\s\S]*key/);
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Go on" }).click();
    await waitUntilDone(page);
    expect(await readProgress(page)).toContain("2,500 of 2,500 answered");
    const stored = "JSON.stringify([location.href, { ...localStorage }, { ...sessionStorage }, document.cookie])";
    expect(`${await page.evaluate(stored)}${await page.content()}`).not.toContain(key);
  });

  test("goes on after a 429 and a 503, and explains it when it gives up", async ({ open }) => {
    const page = await open("/checks", { allowed: /429|503|ERR_FAILED/ });
    const refuse = (status: number, detail: string) => ({
      status,
      contentType: "application/problem+json",
      headers: { "Retry-After": "1" },
      body: JSON.stringify({ type: "/docs#problem-overloaded", title: "Overloaded", status, detail }),
    });
    const refusals = [refuse(503, "The service is busy."), refuse(429, "Too many requests.")];
    await page.route("**/registry/checks", async (route) => {
      const refusal = refusals.shift();
      await (refusal ? route.fulfill(refusal) : route.continue());
    });
    await checkList(page, writeCopies(30));
    await page.getByText(/^The service is busy\. The next ones follow in [12] s/).waitFor();
    await waitUntilDone(page);
    expect((await readCounts(page))[0]).toBe("30");

    await page.route("**/registry/checks", (route) => route.abort());
    await checkList(page, writeCopies(30));
    await page.getByText("The service cannot be reached.").waitFor();
    await page.unrouteAll();
    await page.getByRole("button", { name: "Go on" }).click();
    await waitUntilDone(page);
  });

  test("is accessible with answers", async ({ open }) => {
    const page = await open("/checks");
    await page.getByText("Which columns?").click();
    await page.getByRole("button", { name: "Try the sample" }).click();
    await waitUntilDone(page);
    expect(await readCounts(page)).toEqual(["3", "1", "2", "0", "0"]);
    await expectAccessibleOn(page, SCREENS);
  });

  test("can be used by keyboard alone, with the focus always visible", async ({ open }) => {
    const page = await open("/checks");
    const describeFocus = () =>
      page.evaluate("document.activeElement.labels?.[0]?.textContent || document.activeElement.textContent");
    const reached: string[] = [];
    await page.getByLabel("List", { exact: true }).focus();
    await page.keyboard.insertText(writeCopies(3));
    while (reached.at(-1) !== "Check the list" && reached.length < 10) {
      await page.keyboard.press("Tab");
      const focus = String(await describeFocus());
      const element = `(document.activeElement.closest(".file-button") ?? document.activeElement)`;
      expect(await page.evaluate(`getComputedStyle(${element}).outlineStyle`), focus).toBe("solid");
      reached.push(focus);
    }
    expect(reached).toEqual([
      "Choose a file, or drop it here",
      "Try the sample",
      "Which columns?",
      "Past block",
      "API key",
      "Check the list",
    ]);
    await page.keyboard.press("Enter");
    await waitUntilDone(page);
  });
});
