import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { PAGES, type PageName } from "../../web/pages.ts";
import { GUEST, NFT, VAULT } from "../support/api.ts";
import { DESKTOP, launchBrowser, PHONE } from "../support/browser.ts";
import { launchDev, resolveSandboxFolder } from "../support/dev.ts";

// npm run screenshots: pictures of every page over the sandbox's sample data, in docs/images/.

const IMAGES = join(import.meta.dirname, "../../docs/images");

/** Paths to show instead of a page's own alone. */
const VIEWS: Partial<Record<PageName, Record<string, string>>> = {
  explorer: {
    start: "/",
    explorer: `/?wallet=${VAULT}&chainId=1&view=out`,
    "explorer-history": `/?wallet=${VAULT}&chainId=1&view=history`,
    "explorer-check": `/?view=check&chainId=1&registry=v2&type=erc721&to=${GUEST}&from=${VAULT}&contract=${NFT}&tokenId=8520`,
  },
};

const views = PAGES.flatMap(({ name, path }) => Object.entries(VIEWS[name] ?? { [name]: path }));

await mkdir(IMAGES, { recursive: true });
const dev = await launchDev(resolveSandboxFolder("screenshots"));
try {
  await dev.untilReady();
  const browser = await launchBrowser();
  for (const colorScheme of ["light", "dark"] as const) {
    for (const [device, viewport] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
      const baseURL = `http://127.0.0.1:${dev.apiPort}`;
      const context = await browser.newContext({ baseURL, colorScheme, viewport });
      const page = await context.newPage();
      for (const [name, path] of views) {
        await page.goto(path);
        await page.waitForLoadState("networkidle");
        const file = `${name}-${colorScheme}-${device}.png`;
        await page.screenshot({ path: join(IMAGES, file) });
        console.log(`docs/images/${file}`);
      }
      await context.close();
    }
  }
  await browser.close();
} finally {
  await dev.stop();
}
process.exit();
