import { expect, test } from "vitest";
import { loadAssets } from "../../web/build.ts";
import { PAGES } from "../../web/pages.ts";

const LARGEST_PAGE_BYTES = 150_000;

test.each(PAGES.map(({ name }) => name))(
  "loadAssets() returns less than 150 kB of compressed files for %s",
  async (name) => {
    const { pages, theme, icon, files } = await loadAssets();
    const { script, style } = pages[name];
    const sizes = [script, style, theme, icon]
      .map((file) => files.get(file))
      .map((asset) => asset?.gzip.length ?? Infinity);
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(LARGEST_PAGE_BYTES);
  },
);
