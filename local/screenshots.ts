import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { untilUp } from "../process/is-up.ts";
import { findFreePort } from "../process/ports.ts";
import { PAGES, type PageName } from "../web/pages.ts";
import { SCREENSHOTS_DATA } from "./data-folders.ts";
import { startEmbeddedPostgres } from "./embedded-postgres.ts";
import { indexSamples } from "./index-samples.ts";
import { SAMPLE_NFT } from "./samples.ts";
import { spawnApi } from "./spawn-api.ts";

// npm run screenshots: pictures of every page over the sample data, in docs/images/.

const IMAGES = join(import.meta.dirname, "../docs/images");
/** Debian's. */
const CHROMIUM = "/usr/bin/chromium";

/** Wallets of the samples. */
const VAULT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const GUEST = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

/** Paths to show instead of a page's own alone. */
const VIEWS: Partial<Record<PageName, Record<string, string>>> = {
  explorer: {
    start: "/",
    explorer: `/?wallet=${VAULT}&chainId=1&view=out`,
    "explorer-history": `/?wallet=${VAULT}&chainId=1&view=history`,
    "explorer-check": `/?view=check&chainId=1&registry=v2&type=erc721&to=${GUEST}&from=${VAULT}&contract=${SAMPLE_NFT}&tokenId=8520`,
  },
};

const views = PAGES.flatMap(({ name, path }) => Object.entries(VIEWS[name] ?? { [name]: path }));

const takePictures = async (baseURL: string): Promise<void> => {
  const browser = await chromium.launch({ executablePath: CHROMIUM });
  const devices = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };
  for (const colorScheme of ["light", "dark"] as const) {
    for (const [device, viewport] of Object.entries(devices)) {
      const context = await browser.newContext({ baseURL, colorScheme, viewport });
      // With an open stream, the network would never be idle.
      await context.route(/\/changes/, (route) => route.abort());
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
};

await mkdir(IMAGES, { recursive: true });
const postgres = await startEmbeddedPostgres({ directory: SCREENSHOTS_DATA, disposable: true });
try {
  await indexSamples({ databaseUrl: postgres.url, chainIds: [1, 137], output: process.stderr });
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}`;
  const api = spawnApi({
    PATH: process.env.PATH,
    DATABASE_URL: postgres.url,
    HOST: "127.0.0.1",
    PORT: String(port),
    METRICS_PORT: String(await findFreePort()),
    PUBLIC_URL: url,
    RATE_LIMIT_REQUESTS: "1000000",
    LOG_LEVEL: "warn",
  });
  await untilUp(`${url}/ready`, 60_000);
  await takePictures(url).finally(api.stop);
} finally {
  await postgres.stop();
}
process.exit();
