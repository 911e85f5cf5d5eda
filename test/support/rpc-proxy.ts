import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { WebSocketServer } from "ws";

export type RpcRequest = { id: number; method: string; params: unknown[] };
export type RpcResponse =
  | { result: unknown }
  | { error: { code: number; message: string; data?: unknown }; status?: number }
  /** A status and a body that need not be JSON-RPC. */
  | { status: number; body?: string; headers?: Record<string, string> }
  /** The headers of a response, and a body that never ends. */
  | { stalls: true }
  /** No response: the connection is closed. */
  | { hangsUp: true };

/** Answers or delays a request instead of the node. Returns undefined to pass it on. */
type Interceptor = (request: RpcRequest) => Promise<RpcResponse | undefined> | RpcResponse | undefined;

/** Sends a request to a node. */
export const askNode = async (target: string, request: Omit<RpcRequest, "id">): Promise<RpcResponse> => {
  const response = await fetch(target, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...request }),
  });
  return (await response.json()) as RpcResponse;
};

const JSON_BODY = { "content-type": "application/json" };

const send = (response: ServerResponse, id: number, answer: RpcResponse) => {
  if ("hangsUp" in answer) {
    response.destroy();
  } else if ("stalls" in answer) {
    response.writeHead(200, JSON_BODY).write('{"jsonrpc":"2.0",');
  } else if ("result" in answer || "error" in answer) {
    const status = "error" in answer ? answer.status : 200;
    response
      .writeHead(status ?? 200, JSON_BODY)
      .end(JSON.stringify({ jsonrpc: "2.0", ...answer, status: undefined, id }));
  } else {
    const { status, body, headers = body === undefined || body.startsWith("<") ? {} : JSON_BODY } = answer;
    response.writeHead(status, headers).end(body);
  }
};

/** Launches a proxy to a node that tests can make fail. The caller stops it. */
export const launchRpcProxy = async (target: string) => {
  const seen: RpcRequest[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body: RpcRequest = JSON.parse(Buffer.concat(chunks).toString());
    seen.push(body);
    const answer = async () => (await proxy.intercept(body)) ?? (await askNode(target, body));
    send(response, body.id, await answer().catch(() => ({ status: 502 })));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    intercept: (() => undefined) as Interceptor,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  return proxy;
};

/** Starts a proxy to a node that tests can make fail, until the test is over. */
export const startRpcProxy = async (target: string) => {
  const proxy = await launchRpcProxy(target);
  onTestFinished(proxy.stop);
  return proxy;
};

/**
 * Holds requests for the logs of later blocks until they are released, so that a backfill stops between two ranges.
 * Ponder backfills final blocks in ranges: the first 25, then up to twice as many each time.
 */
export const holdLogsAfter = (rpc: Awaited<ReturnType<typeof startRpcProxy>>, block: number) => {
  let held = 0;
  let release = () => {};
  const released = new Promise<undefined>((resolve) => {
    release = () => resolve(undefined);
  });
  rpc.intercept = ({ method, params }) => {
    const isLater = method === "eth_getLogs" && Number((params[0] as { toBlock?: string }).toBlock) > block;
    if (!isLater) return undefined;
    held++;
    return released;
  };
  return { isHolding: () => held > 0, release };
};

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
