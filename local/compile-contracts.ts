import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Hex } from "viem";

const ROOT = join(import.meta.dirname, "..");
const SOURCES = join(import.meta.dirname, "contracts");
const CACHE = join(ROOT, ".data/contracts");

const CONTRACTS = [
  "DelegationRegistryV1",
  "DelegateRegistryV2",
  "ContractWallet",
  "SigningWalletFactory",
  "LookupWallet",
] as const;

/** Deployed bytecode of each contract. None of them has a constructor. */
export type ContractCode = Record<(typeof CONTRACTS)[number], Hex>;

/** Compiles the stand-in contracts. Caches the result until the sources change. */
export const compileContracts = async (): Promise<ContractCode> => {
  const sources = await Promise.all(
    CONTRACTS.map(async (name) => [`${name}.sol`, { content: await readFile(join(SOURCES, `${name}.sol`), "utf8") }]),
  );
  const input = JSON.stringify({
    language: "Solidity",
    sources: Object.fromEntries(sources),
    settings: {
      optimizer: { enabled: true },
      evmVersion: "paris",
      outputSelection: { "*": { "*": ["evm.deployedBytecode.object"] } },
    },
  });

  const cached = join(CACHE, `${createHash("sha256").update(input).digest("hex").slice(0, 16)}.json`);
  try {
    return JSON.parse(await readFile(cached, "utf8"));
  } catch {
    // Not compiled yet.
  }

  const { default: solc } = await import("solc");
  const output = JSON.parse(solc.compile(input));
  const errors = (output.errors ?? []).filter((error: { severity: string }) => error.severity === "error");
  if (errors.length > 0) {
    throw new Error(errors.map((error: { formattedMessage: string }) => error.formattedMessage).join("\n"));
  }
  const code = Object.fromEntries(
    CONTRACTS.map((name) => [name, `0x${output.contracts[`${name}.sol`][name].evm.deployedBytecode.object}`]),
  );
  await mkdir(CACHE, { recursive: true });
  // Several callers may do this at a time.
  const temporary = `${cached}.${randomUUID()}`;
  await writeFile(temporary, JSON.stringify(code));
  await rename(temporary, cached);
  return code as ContractCode;
};
