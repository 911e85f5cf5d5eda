import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocketServer } from "ws";
import { askNode, type RpcRequest } from "./rpc-proxy.ts";

const POLL_MS = 100;

/** Launches a WebSocket that announces the new blocks of a node, and passes other requests on. The caller stops it. */
export const launchHeadSocket = async (target: string) => {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  await new Promise((resolve) => server.once("listening", resolve));

  server.on("connection", (socket) => {
    socket.on("message", async (data) => {
      const { id, method, params }: RpcRequest = JSON.parse(String(data));
      if (method === "eth_subscribe") heads.subscriptions++;
      const answer = method === "eth_subscribe" ? { result: "0x1" } : await askNode(target, { method, params });
      socket.send(JSON.stringify({ jsonrpc: "2.0", ...answer, id }));
    });
  });

  const announce = (result: unknown) => {
    const message = JSON.stringify({
      jsonrpc: "2.0",
      method: "eth_subscription",
      params: { subscription: "0x1", result },
    });
    for (const socket of server.clients) socket.send(message);
  };
  const watch = async () => {
    for (let announced = ""; !heads.isStopped; await sleep(POLL_MS)) {
      const answer = await askNode(target, { method: "eth_getBlockByNumber", params: ["latest", false] }).catch(
        () => null,
      );
      const block = answer && "result" in answer ? (answer.result as { hash: string } | null) : null;
      if (!block || block.hash === announced) continue;
      announced = block.hash;
      if (heads.isSilent) heads.missed++;
      else announce(block);
    }
  };

  const heads = {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** True for a socket that stays open and announces nothing. */
    isSilent: false,
    isStopped: false,
    /** The number of subscriptions so far. */
    subscriptions: 0,
    /** The number of blocks that it has not announced. */
    missed: 0,
    /** The number of connections that it has closed. */
    closed: 0,
    /** Closes all connections; clients may connect again. */
    closeAll: () => {
      for (const socket of server.clients) {
        socket.terminate();
        heads.closed++;
      }
    },
    stop: () => {
      heads.isStopped = true;
      heads.closeAll();
      server.close();
    },
  };
  watch();
  return heads;
};
