import { Endpoint } from "./endpoint.ts";
import type { JsonRpcRequest } from "./json-rpc.ts";
import { isUnreachable } from "./rpc-errors.ts";

/** The endpoints of one chain, with fail-over. */
export class Endpoints {
  readonly #endpoints: readonly Endpoint[];

  constructor(chainId: number, urls: readonly string[], recentOnlyUrls: readonly string[] = [], logsRange?: number) {
    this.#endpoints = urls.map((url) => {
      const endpoint = new Endpoint(chainId, url, logsRange);
      endpoint.lacksHistory = recentOnlyUrls.includes(url);
      return endpoint;
    });
  }

  /** The endpoints for old logs, in the operator's order, those that cool down last. */
  listForHistory(): Endpoint[] {
    return this.#sort().filter(({ lacksHistory }) => !lacksHistory);
  }

  /**
   * Sends a request to one endpoint after another until a result is acceptable. Otherwise the first response of a node
   * counts, a result or an error: Ponder reads a provider's limits from its error. A response counts for more than an
   * unreachable endpoint, unless that one could have an acceptable result.
   */
  async request(
    request: JsonRpcRequest,
    isAcceptable = (_result: unknown) => true,
    { needsAll = false } = {},
  ): Promise<unknown> {
    const now = Date.now();
    let response: { result: unknown } | { error: unknown } | undefined;
    let outage: unknown;
    for (const endpoint of this.#sort(now)) {
      if (response && endpoint.isCoolingDown(now) && !needsAll) break;
      try {
        const result = await endpoint.request(request);
        if (isAcceptable(result)) return result;
        response ??= { result };
      } catch (error) {
        if (isUnreachable(error)) outage ??= error;
        else response ??= { error };
      }
    }
    if (needsAll && outage) throw outage;
    if (response && "result" in response) return response.result;
    throw response ? response.error : outage;
  }

  /** The sort is stable: endpoints that cool down are the last resort, in the operator's order. */
  #sort(now = Date.now()): Endpoint[] {
    return this.#endpoints.toSorted((a, b) => Number(a.isCoolingDown(now)) - Number(b.isCoolingDown(now)));
  }
}
