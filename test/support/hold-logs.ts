import type { startRpcProxy } from "./rpc-proxy.ts";

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
