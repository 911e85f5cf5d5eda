import { createServer } from "node:http";
import { onTestFinished } from "vitest";

type RpcRequest = { id: number; method: string; params: unknown[] };
type RpcResponse =
  | { result: unknown }
  | { error: { code: number; message: string } }
  | { status: number }
  /** What is sent in place of JSON. */
  | { bytes: string };

/** Answers a request in the node's place, or holds it up, or lets it pass by answering nothing. */
type Interceptor = (request: RpcRequest) => Promise<RpcResponse | undefined> | RpcResponse | undefined;

/** A way to a node that can be made to misbehave. */
export const startRpcProxy = async (target: string) => {
  const seen: RpcRequest[] = [];
  const proxy = { url: "", seen, intercept: (() => undefined) as Interceptor };

  const answer = async (request: RpcRequest): Promise<RpcResponse> => {
    seen.push(request);
    const intercepted = await proxy.intercept(request);
    if (intercepted) return intercepted;
    const response = await fetch(target, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", ...request }),
    });
    return (await response.json()) as RpcResponse;
  };

  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body: RpcRequest = JSON.parse(Buffer.concat(chunks).toString());
    const answered = await answer(body).catch(() => ({ status: 502 }));
    if ("status" in answered) {
      response.writeHead(answered.status).end();
      return;
    }
    response.writeHead(200, { "content-type": "application/json" });
    if ("bytes" in answered) {
      response.end(answered.bytes);
      return;
    }
    response.end(JSON.stringify({ jsonrpc: "2.0", ...answered, id: body.id }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("The proxy has no port.");
  proxy.url = `http://127.0.0.1:${address.port}`;
  return proxy;
};
