import { expect } from "vitest";
import { test as base } from "../support/test.ts";
import { createWebhook, runWebhooks, startReceiver, verify, WEBHOOKS_ON } from "../support/webhooks.ts";

const test = base.extend("env", WEBHOOKS_ON);

test("create, list, test, deliveries, again, rotate, pause, delete", async ({ api: _, databaseUrl }) => {
  const receiver = await startReceiver();
  const { id, secret } = await createWebhook(
    databaseUrl,
    receiver.url,
    "--chain",
    "1",
    "--chain",
    "137",
    "--type",
    "ALL",
  );
  expect(secret).toMatch(/^whsec_/);
  const run = (...args: string[]) => runWebhooks(databaseUrl, ...args);
  const listed = (await run("list")).stdout;
  for (const text of [id, receiver.url, "operator", "chain=1,137 type=ALL finality=final", "active"]) {
    expect(listed).toContain(text);
  }
  expect(listed).not.toContain(secret);
  expect(await run("test", id)).toMatchObject({ code: 0, stdout: "delivered, 204" });
  verify(secret, receiver.received[0] ?? expect.fail());
  const messageId = String(receiver.received[0]?.headers["webhook-id"]);
  expect((await run("deliveries", id)).stdout).toContain(messageId);
  expect((await run("again", id, messageId)).code).toBe(0);
  expect((await run("again", id, "msg_none")).code).toBe(1);
  expect((await run("rotate", id)).stdout).toMatch(/^whsec_/);
  expect((await run("pause", id)).code).toBe(0);
  expect((await run("list")).stdout).toContain("paused");
  expect((await run("delete", id)).code).toBe(0);
  expect(await run("test", id)).toMatchObject({ code: 1, stderr: expect.stringContaining("no such webhook") });
});

test("bad arguments are named", async ({ databaseUrl }) => {
  const bad = await runWebhooks(databaseUrl, "create", "--url", "ftp://x", "--chain", "123456789", "--cursor", "x");
  expect(bad.code).toBe(1);
  for (const name of ["url", "chainId", "cursor"]) expect(bad.stderr).toContain(name);
  for (const args of [[], ["none"], ["test"], ["list", "x"]]) {
    expect(await runWebhooks(databaseUrl, ...args)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("npm run webhooks --"),
    });
  }
});
