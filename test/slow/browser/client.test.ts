import { expect } from "vitest";
import { test as base } from "../../support/browser.ts";
import { clientExamples, launchClient, nameOf } from "../../support/client-package.ts";
import { expectOutput } from "../../support/examples.ts";
import { startHttp } from "../../support/http.ts";
import { describeWithPrograms } from "../../support/run.ts";

// The examples of client/README.md as parts of a page of another origin.

const test = base.extend("client", { scope: "file" }, async ({}, { onCleanup }) => {
  const client = await launchClient();
  onCleanup(() => client.stop());
  return client;
});

const listFiles = (examples: typeof clientExamples) => examples.map((example) => `${nameOf(example)}.mts`);

test("the examples and the package's declarations pass a strict type check with the types of a browser", async ({
  client,
}) => {
  const browser = { lib: ["es2022", "dom"], types: [], skipLibCheck: false, noEmit: true };
  expect(await client.checkTypes(browser, listFiles(clientExamples))).toBe("");
});

test("the examples and the package's declarations pass a strict type check with the types of Node", async ({
  client,
}) => {
  const node = { lib: ["es2022"], types: ["node"], skipLibCheck: false, noEmit: true };
  // The declarations of viem need the types of a browser.
  const withoutViem = clientExamples.filter(({ code }) => !code.includes('from "viem"'));
  expect(withoutViem).not.toEqual([]);
  expect(await client.checkTypes(node, listFiles(withoutViem))).toBe("");
});

describeWithPrograms(["chromium"], "in a browser", () => {
  test.for(clientExamples.map((example) => [nameOf(example), example] as const))(
    "an example of client/README.md prints the documented output: %s",
    async ([name, { output }], { browser, client }) => {
      const bundle = await client.bundle(`import "./${name}.mts"; console.debug("done");`);
      const { url } = await startHttp((request, response) => {
        const isScript = request.url === "/example.js";
        response.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
        response.end(
          isScript
            ? bundle
            : '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/example.js"></script>',
        );
      });
      const page = await browser.newPage();
      const printed: string[] = [];
      const failed = new Promise<never>((_, reject) => page.on("pageerror", reject));
      failed.catch(() => {});
      page.on("console", (message) => {
        if (message.type() === "log") printed.push(message.text());
      });
      const done = page.waitForEvent("console", { predicate: (message) => message.type() === "debug" });
      await page.goto(url);
      await Promise.race([done, failed]);
      await page.close();
      if (!output) throw new Error("No output follows.");
      expectOutput(printed.join("\n"), output);
    },
  );
});
