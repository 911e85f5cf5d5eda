import { execFile } from "node:child_process";
import { arch, platform } from "node:os";
import { delimiter, dirname } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { listSandboxProcesses, resolveSandboxFolder, startDev } from "../../support/local.ts";
import { ROOT } from "../../support/run.ts";

const run = promisify(execFile);

const FOLDER = resolveSandboxFolder("node-versions");
/** The oldest versions that package.json allows, and the newest major version that is known to work. */
const VERSIONS = ["20.19", "26"];

/** Finds the path of a Node in npm's cache, from the npm registry; null if there is none. */
const findNode = async (version: string): Promise<string | null> => {
  const npmPackage = `--package=node-${platform()}-${arch()}@${version}`;
  const command = ["node", "--print", "process.execPath"];
  const fetching = run("npm", ["exec", "--yes", "--fetch-retries=0", npmPackage, "--", ...command], { cwd: ROOT });
  return fetching.then(
    ({ stdout }) => stdout.trim(),
    () => null,
  );
};

test.for(VERSIONS)("npm run dev answers a check on Node %s", async (version, { skip }) => {
  const node = await findNode(version);
  if (node === null) return skip(`The npm registry does not answer here, or has no Node ${version} for this machine.`);

  const dev = await startDev(FOLDER, { PATH: `${dirname(node)}${delimiter}${process.env.PATH}` });
  await dev.untilReady();
  const wallets = "to=0x70997970C51812dc3A010C7d01b50e0d17dc79C8&from=0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
  const response = await fetch(`http://127.0.0.1:${dev.apiPort}/registry/v2/check/all?${wallets}`);
  expect(await response.text()).toBe("true");
  for (const program of ["ponder.js", "api/main.ts"]) {
    const [command] = listSandboxProcesses(FOLDER).filter((command) => command.includes(program));
    expect(command?.split("\0")[0]).toBe(node);
  }
});
