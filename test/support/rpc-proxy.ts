import { onTestFinished } from "vitest";
import { launchRpcProxy } from "./rpc-relay.ts";

/** A way to a node that can be made to misbehave, until the test is over. */
export const startRpcProxy = async (target: string) => {
  const proxy = await launchRpcProxy(target);
  onTestFinished(proxy.stop);
  return proxy;
};
