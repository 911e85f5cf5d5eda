import { http } from "viem";
import { UnknownFormError } from "../../client/src/proven-state.ts";
import { createReadClient } from "../../indexer/rpc/read-client.ts";

/** Sends a JSON-RPC request to a node. */
export type RpcRequest = (request: { method: string; params: readonly unknown[] }) => Promise<unknown>;

/** Twice the largest response, proofs of 64 slots of a large trie. */
const MAX_RESPONSE_BYTES = 1_048_576;

/**
 * Asks one node after another until one answers. The deadline, shared by all nodes, ends the requests themselves. If none
 * does, the error is that of a node which may do it later, rather than of one that cannot.
 */
export const askNodes = async <Answer>(
  urls: readonly string[],
  timeoutMs: number,
  ask: (request: RpcRequest) => Promise<Answer>,
): Promise<Answer> => {
  const failures: unknown[] = [];
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
      failures.push(error);
    } finally {
      clearTimeout(timer);
      // Ends the other requests if one has failed.
      controller.abort();
    }
  }
  throw chooseFailure(failures);
};

/** Chooses the first failure that may pass, or the first one. */
export const chooseFailure = (failures: readonly unknown[]): unknown =>
  failures.find((failure) => !(failure instanceof UnknownFormError)) ?? failures[0] ?? new Error("There is no node.");
