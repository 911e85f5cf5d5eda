import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startTestApi } from "../support/api.ts";
import { signInVisitor } from "../support/portal.ts";
import { createDatabase } from "../support/setup.ts";

test("the developer API returns 408 after 5 s for a slow body, and closes the connection", async () => {
  const api = await startTestApi({ databaseUrl: await createDatabase() });
  const visitor = await signInVisitor(api);
  const startedAt = Date.now();
  const answer = await new Promise<{ status: number | undefined; connection: string | undefined }>(
    (resolve, reject) => {
      const headers = {
        Origin: api.url,
        Cookie: visitor.cookieHeader,
        "Content-Type": "application/json",
        "Content-Length": 100,
      };
      const path = "/developers/api/keys";
      const sent = request({ port: api.port, host: "127.0.0.1", path, method: "POST", headers }, (response) => {
        resolve({ status: response.statusCode, connection: response.headers.connection });
        response.resume();
      });
      sent.on("error", reject);
      const drip = async () => {
        while (!sent.destroyed) {
          sent.write(" ");
          await sleep(500);
        }
      };
      drip();
    },
  );
  expect(answer).toEqual({ status: 408, connection: "close" });
  expect(Date.now() - startedAt).toBeLessThan(8_000);
});
