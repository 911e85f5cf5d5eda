import { onTestFinished } from "vitest";
import { launchRpcProxy } from "./rpc-relay.ts";

/** Starts a proxy to a node that tests can make fail, until the test is over. */
export const startRpcProxy = async (target: string) => {
  const proxy = await launchRpcProxy(target);
  onTestFinished(proxy.stop);
  return proxy;
};
