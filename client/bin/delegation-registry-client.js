#!/usr/bin/env node
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";

// npx delegation-registry-client verify proof.json --hash 0x…

const USAGE =
  "Usage: delegation-registry-client verify <file> --hash <hash of the block> [--chain <chain id, 1 by default>]";

/** A file may be anybody's: its characters must not move the cursor, or hide what is printed. */
const printable = (text) => text.replace(/[^ -~]/gu, "?");

const fail = (message, status) => {
  console.error(printable(message));
  process.exit(status);
};

const readArguments = () => {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { hash: { type: "string" }, chain: { type: "string", default: "1" } },
    });
    const [command, file, ...others] = positionals;
    const isComplete = command === "verify" && file && others.length === 0 && values.hash;
    return isComplete && /^\d{1,15}$/.test(values.chain)
      ? { file, hash: values.hash, chainId: Number(values.chain) }
      : null;
  } catch {
    return null;
  }
};

const given = readArguments() ?? fail(USAGE, 2);
const { verifyProof } = await import("../dist/proof.js").catch(({ message }) =>
  fail(`Proofs need viem: npm install viem. ${message}`, 2),
);
try {
  const proof = JSON.parse(await readFile(given.file, "utf8"));
  const { value, question, block } = verifyProof(proof, given);
  const { registry, check, chainId, ...parameters } = question;
  const asked = Object.entries(parameters).map(([name, parameter]) => `${name} ${parameter}`);
  console.log(`${value}: ${registry} check ${check} on chain ${chainId} at block ${block.number}`);
  console.log(asked.join("\n"));
} catch (error) {
  fail(error.message, 1);
}
