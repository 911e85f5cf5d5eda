import { createServer, type ServerResponse } from "node:http";

export type RpcRequest = { id: number; method: string; params: unknown[] };
export type RpcResponse =
  | { result: unknown }
  | { error: { code: number; message: string } }
  /** No answer in JSON-RPC: a status with a body, whatever that is. */
  | { status: number; body?: string }
  /** No answer at all. */
  | { hangsUp: true };

/** Answers a request in the node's place, or holds it up, or lets it pass by answering nothing. */
type Interceptor = (request: RpcRequest) => Promise<RpcResponse | undefined> | RpcResponse | undefined;

/** What a node says. */
export const askNode = async (target: string, request: Omit<RpcRequest, "id">): Promise<RpcResponse> => {
  const response = await fetch(target, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...request }),
  });
  return (await response.json()) as RpcResponse;
};

const send = (response: ServerResponse, id: number, answer: RpcResponse) => {
  if ("hangsUp" in answer) {
    response.destroy();
  } else if ("status" in answer) {
    const headers = answer.body === undefined ? {} : { "content-type": "application/json" };
    response.writeHead(answer.status, headers).end(answer.body);
  } else {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", ...answer, id }));
  }
};

/** A way to a node that can be made to misbehave. Who asks for it stops it. */
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
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("The proxy has no port.");

  const proxy = {
    url: `http://127.0.0.1:${address.port}`,
    seen,
    intercept: (() => undefined) as Interceptor,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  return proxy;
};
