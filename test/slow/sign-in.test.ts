import { once } from "node:events";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Api, startTestApi, startTestApiProcess } from "../support/api.ts";
import { createWallet, signInVisitor, Visitor } from "../support/developers.ts";
import { startHttp } from "../support/http.ts";
import { readResidentMb, watchMemory } from "../support/processes.ts";
import { createDatabase, waitUntil } from "../support/setup.ts";

const signIn = async (api: Pick<Api, "url" | "port">) => {
  const visitor = new Visitor(api);
  return visitor.finish(await visitor.begin(createWallet().address), "0x00");
};

const CHUNK = Buffer.alloc(1_000_000, "0");

test.for([
  ["a body of known length", true],
  ["a chunked body", false],
] as const)("an RPC that answers a sign-in with 150 MB in %s does not fill the memory", async ([, hasLength]) => {
  let sent = 0;
  const rpc = await startHttp(async (request, response) => {
    request.resume();
    response.writeHead(200, {
      "Content-Type": "application/json",
      ...(hasLength && { "Content-Length": 150 * CHUNK.length }),
    });
    for (let chunk = 0; chunk < 150 && !response.destroyed; chunk++) {
      sent++;
      if (!response.write(CHUNK)) await Promise.race([once(response, "drain"), once(response, "close")]);
    }
    response.end();
  });
  const api = await startTestApiProcess({ databaseUrl: await createDatabase(), env: { PONDER_RPC_URL_1: rpc.url } });
  // The first sign-in loads viem.
  const wallet = createWallet();
  const visitor = new Visitor(api);
  await visitor.signIn(wallet);
  const before = readResidentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const answer = await signIn(api);
  expect(answer).toMatchObject({ status: 503, json: { type: "/docs#problem-network-unavailable" } });
  await waitUntil("the connections are closed", () => rpc.sockets.size === 0);
  expect(readPeak() - before).toBeLessThan(40);
  expect(sent).toBeLessThan(50);
});

test("an RPC that stalls at a sign-in loses its connection after the deadline", async () => {
  const rpc = await startHttp((request, response) => {
    request.resume();
    response.writeHead(200, { "Content-Type": "application/json" }).write('{"jsonrpc":"2.0",');
  });
  const api = await startTestApi({ databaseUrl: await createDatabase(), env: { PONDER_RPC_URL_1: rpc.url } });
  const startedAt = Date.now();
  const answer = await signIn(api);
  expect(answer).toMatchObject({ status: 503, json: { type: "/docs#problem-network-unavailable" } });
  expect(Date.now() - startedAt).toBeLessThan(15_000);
  await waitUntil("the connections are closed", () => rpc.sockets.size === 0, 1);
});

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
