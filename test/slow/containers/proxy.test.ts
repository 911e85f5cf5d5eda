import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { expect, onTestFinished } from "vitest";
import { isUp } from "../../../process/is-up.ts";
import { findFreePort } from "../../../process/ports.ts";
import { describeWithPrograms, findProgram, ROOT } from "../../support/run.ts";
import { waitUntil } from "../../support/setup.ts";
import { test as base } from "../../support/test.ts";

// ops/proxy/nginx.conf in this machine's nginx, in front of an API. stack.test.ts has all of it in containers.

/** Replaces a line of the configuration, which has to be there. */
const edit = (text: string, from: RegExp, to: string): string => {
  if (!from.test(text)) throw new Error(`ops/proxy/nginx.conf has no ${from}.`);
  return text.replace(from, to);
};

const test = base.extend("proxy", { scope: "file" }, async ({ samples }, { onCleanup }) => {
  const folder = mkdtempSync(join(tmpdir(), "delegation-registry-proxy-"));
  const [http1, http2, health] = [await findFreePort(), await findFreePort(), await findFreePort()];
  let conf = readFileSync(join(ROOT, "ops/proxy/nginx.conf"), "utf8");
  // Docker's DNS is not here, and this nginx may be older than the image's.
  conf = edit(conf, /resolver 127\.0\.0\.11 .*;/, "");
  conf = edit(conf, /server api:8080 resolve /, `server 127.0.0.1:${samples.port} `);
  // Without TLS, nginx speaks HTTP/2 on a port of its own, to clients that know it.
  conf = edit(conf, /listen 8080;/, `listen 127.0.0.1:${http1}; listen 127.0.0.1:${http2} http2;`);
  conf = edit(conf, /127\.0\.0\.1:8079/, `127.0.0.1:${health}`);
  conf = edit(conf, /worker_processes auto;/, "worker_processes 1;");
  conf = conf.replaceAll("/tmp/", `${folder}/`);
  const file = join(folder, "nginx.conf");
  writeFileSync(file, conf);
  const nginx = findProgram("nginx") ?? "nginx";
  execFileSync(nginx, ["-t", "-q", "-p", folder, "-c", file]);
  const child = spawn(nginx, ["-p", folder, "-c", file], { stdio: "ignore" });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  onCleanup(async () => {
    child.kill();
    await ended;
    rmSync(folder, { recursive: true });
  });
  await waitUntil("nginx listens", () => isUp(`http://127.0.0.1:${health}/health`));
  return { http1, http2 };
});

const HEADERS = { accept: "text/event-stream" };
const PATH = "/changes?finality=latest&cursor=start";

const openStream = {
  "HTTP/1.1": (port: number) =>
    new Promise<Readable>((resolve, reject) => {
      request({ host: "127.0.0.1", port, path: PATH, headers: HEADERS, agent: false }, resolve)
        .on("error", reject)
        .end();
    }),
  "HTTP/2": async (port: number) => {
    const session = connect(`http://127.0.0.1:${port}`);
    onTestFinished(() => session.destroy());
    return session.request({ ":path": PATH, ...HEADERS });
  },
};

describeWithPrograms(["nginx"], "ops/proxy/nginx.conf", () => {
  test.for([
    ["HTTP/1.1", "http1"],
    ["HTTP/2", "http2"],
  ] as const)(
    "passes on live changes at once, and what keeps a stream alive, over %s",
    async ([name, listener], { proxy }) => {
      const stream = await openStream[name](proxy[listener]);
      let text = "";
      stream.setEncoding("utf8").on("data", (chunk) => {
        text += chunk;
      });
      const count = (event: string) => text.split(`event: ${event}\n`).length - 1;
      await waitUntil("everything has come", () => count("progress") > 0 && text.includes('"137":{'));
      expect(count("change")).toBeGreaterThan(100);
      const before = count("progress");
      // Sent after ten seconds without a change.
      await waitUntil("it is kept alive", () => count("progress") > before);
      stream.destroy();
    },
  );
});
