import { execFileSync } from "node:child_process";
import { custom } from "viem";
import { expect, test } from "vitest";
import { createReadClient } from "../../indexer/rpc/read-client.ts";
import { ROOT } from "../support/run.ts";

test("createReadClient() follows no off-chain lookup", () => {
  expect(createReadClient(custom({ request: async () => null })).ccipRead).toBe(false);
});

test("every viem client of the service is made by createReadClient()", () => {
  const folders = ["registry", "process", "indexer", "src", "web", "api", "commands"];
  // The others create clients of Redis and of this service.
  const pattern = "\\bcreate(Public|Wallet)?Client\\(";
  const files = execFileSync("grep", ["-rlE", "--include=*.ts", "--include=*.tsx", pattern, ...folders], { cwd: ROOT });
  expect(files.toString().trim().split("\n")).toEqual([
    "indexer/rpc/read-client.ts",
    "web/shared/registry.ts",
    "api/limits/shared-window.ts",
  ]);
});
