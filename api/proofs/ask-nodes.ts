import { http } from "viem";
import { createReadClient } from "../../indexer/rpc/read-client.ts";

/** Sends a JSON-RPC request to a node. */
export type RpcRequest = (request: { method: string; params: readonly unknown[] }) => Promise<unknown>;

/** Twice the largest response, proofs of 64 slots of a large trie. */
const MAX_RESPONSE_BYTES = 1_048_576;

/** Asks one node after another until one answers. The deadline, shared by all nodes, ends the requests themselves. */
export const askNodes = async <Answer>(
  urls: readonly string[],
  timeoutMs: number,
  ask: (request: RpcRequest) => Promise<Answer>,
): Promise<Answer> => {
  let failure: unknown = new Error("There is no node.");
  for (const url of urls) {
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), timeoutMs / urls.length);
    const client = createReadClient(
      http(url, {
        timeout: timeoutMs,
        retryCount: 0,
        fetchOptions: { signal: controller.signal, redirect: "error" },
        maxResponseBodySize: MAX_RESPONSE_BYTES,
      }),
    );
    try {
      return await ask(client.request as RpcRequest);
    } catch (error) {
      failure = error;
    } finally {
      clearTimeout(timer);
      // Ends the other requests if one has failed.
      controller.abort();
    }
  }
  throw failure;
};
