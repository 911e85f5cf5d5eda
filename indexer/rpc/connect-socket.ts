import { WebSocketRequestError, type WebSocketTransport, withTimeout } from "viem";

const TIMEOUT_MS = 10_000;

/** Connects a WebSocket. viem alone waits for a server that accepts the connection and never answers. */
export const connectSocket = (url: string, { value }: ReturnType<WebSocketTransport>) => {
  const cause = new Error("The server does not answer.");
  if (!value) throw new WebSocketRequestError({ url, cause });
  return withTimeout(value.getRpcClient, {
    timeout: TIMEOUT_MS,
    errorInstance: new WebSocketRequestError({ url, cause }),
  });
};
