import { type AddressInfo, createServer } from "node:net";
import { inspect } from "node:util";
import { expect, onTestFinished, test, vi } from "vitest";
import { Endpoint } from "../../indexer/rpc/endpoint.ts";
import { isUnreachable } from "../../indexer/rpc/rpc-errors.ts";
import { launchHeadSocket } from "../support/rpc-proxy.ts";
import { createChain } from "../support/setup.ts";

const CHAIN = 1;
const HEAD = { method: "eth_blockNumber" };

test("An endpoint over a WebSocket connects again after its connection was closed", async () => {
  const chain = await createChain(CHAIN);
  const socket = await launchHeadSocket(chain.url);
  onTestFinished(socket.stop);
  const endpoint = new Endpoint(CHAIN, socket.url);
  expect(await endpoint.request(HEAD)).toBe("0x0");
  for (let closed = 0; closed < 3; closed++) {
    socket.closeAll();
    await vi.waitFor(async () => expect(await endpoint.request(HEAD)).toBe("0x0"));
  }
});

test("An endpoint over a WebSocket that refuses connections is unreachable, and its error has no secret", async () => {
  const request = new Endpoint(CHAIN, "ws://127.0.0.1:4/secret-path").request(HEAD);
  const error: unknown = await request.catch((error) => error);
  expect(isUnreachable(error)).toBe(true);
  // Newer versions of Node have their own WebSocket, which does not tell the reason.
  expect(inspect(error)).toMatch(/Details: .*(ECONNREFUSED|network error|The connection failed)/);
  expect(inspect(error)).not.toContain("secret-path");
});

test("An endpoint over a WebSocket that accepts connections and never answers is unreachable after 10 s", {
  timeout: 30_000,
}, async () => {
  let connections = 0;
  const server = createServer(() => connections++).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await vi.waitFor(() => expect(server.listening).toBe(true));
  const endpoint = new Endpoint(CHAIN, `ws://127.0.0.1:${(server.address() as AddressInfo).port}/secret-path`);
  const requests = Promise.allSettled([endpoint.request(HEAD), endpoint.request(HEAD)]);
  await vi.waitFor(() => expect(connections).toBeGreaterThan(0));
  for (const request of await requests) {
    expect(isUnreachable("reason" in request && request.reason)).toBe(true);
    expect(inspect(request)).not.toContain("secret-path");
  }
  expect(connections, "requests share a connection").toBe(1);
});
