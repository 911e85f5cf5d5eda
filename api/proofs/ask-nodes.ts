import { http } from "viem";
import { createReadClient } from "../../indexer/rpc/read-client.ts";
import type { RpcRequest } from "./prove-check.ts";

/** Several times the largest response, a proof of six slots of a large trie. */
const MAX_RESPONSE_BYTES = 1_048_576;

/** Asks one node after another until one proves it. The deadline, shared by all nodes, ends the requests themselves. */
export const askNodes = async <Proven>(
  urls: readonly string[],
  timeoutMs: number,
  prove: (request: RpcRequest) => Promise<Proven>,
): Promise<Proven> => {
  let failure: unknown;
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
      return await prove(client.request as RpcRequest);
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
