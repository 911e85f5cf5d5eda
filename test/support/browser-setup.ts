import type { TestProject } from "vitest/node";
import { launchDev, sandboxFolder } from "./dev.ts";
import { findProgram } from "./programs.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** Of the sandbox; empty where there is no browser to look at it with. */
    sandboxUrl: string;
    sandboxDatabaseUrl: string;
    /** The RPC of its first chain. */
    sandboxChainUrl: string;
  }
}

/** `npm run dev`, once for all tests in a browser. */
export default async ({ provide }: TestProject) => {
  provide("sandboxUrl", "");
  provide("sandboxDatabaseUrl", "");
  provide("sandboxChainUrl", "");
  if (findProgram("chromium") === null) return;
  const dev = await launchDev(sandboxFolder("browser"));
  await dev.untilReady(120).catch(async (error) => {
    await dev.stop();
    throw new Error(dev.output(), { cause: error });
  });
  provide("sandboxUrl", `http://127.0.0.1:${dev.apiPort}`);
  provide("sandboxDatabaseUrl", dev.databaseUrl());
  provide("sandboxChainUrl", `http://127.0.0.1:${dev.chainPort}`);
  return () => dev.stop();
};
