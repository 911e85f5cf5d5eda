import { setTimeout as sleep } from "node:timers/promises";
import type { Address, Client, Hex } from "viem";
import { getBlock, getBlockNumber, getCode } from "viem/actions";
import type { Deployment } from "../registry/networks.ts";

const ATTEMPTS = 4;
const RETRY_MS = 1_000;

/** Where a start block comes from. Starting early only costs time; starting late loses delegations. */
type StartBlock =
  | { block: number; source: "setting" | "proven" | "floor" | "discovered" }
  | { block: 0; source: "genesis"; reason: string };

/**
 * The first block that can hold an event of a registry: as set, as proven, or as found on the chain.
 * Unless it is set so, never later than the deployment.
 */
export const findStartBlock = async (
  client: Client,
  deployment: Deployment,
  setting: number | null,
  retryMs = RETRY_MS,
): Promise<StartBlock> => {
  if (setting !== null) return { block: setting, source: "setting" };
  if (deployment.startBlock !== null) return { block: deployment.startBlock, source: "proven" };
  if (deployment.startBlockFloor !== null) return { block: deployment.startBlockFloor, source: "floor" };
  return discoverStartBlock(client, deployment, retryMs);
};

/** The code at an address after a block, or null where the node persists in not telling. */
const getCodeAt = async (
  client: Client,
  address: Address,
  blockNumber: bigint,
  retryMs: number,
): Promise<Hex | "" | null> => {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    try {
      return (await getCode(client, { address, blockNumber })) ?? "";
    } catch {
      // Nodes say in many ways that they have no old state. One that is gone says nothing more.
      await getBlockNumber(client, { cacheTime: 0 });
      if (attempt < ATTEMPTS) await sleep(retryMs);
    }
  }
  return null;
};

const genesis = (reason: string): StartBlock => ({ block: 0, source: "genesis", reason });

/** Bisects for the block at which the registry's code appears. */
const discoverStartBlock = async (client: Client, deployment: Deployment, retryMs: number): Promise<StartBlock> => {
  const { address, deployedBefore } = deployment;
  if (deployedBefore === null) {
    return genesis("it is not known by when the registry was deployed, so a found block could not be checked");
  }

  const head = await getBlockNumber(client, { cacheTime: 0 });
  const codeNow = await getCodeAt(client, address, head, retryMs);
  if (codeNow === null) return genesis("the RPC does not answer eth_getCode");
  if (codeNow === "") return genesis("the registry is not deployed on this chain");

  // The code is absent up to `absent`, and present from `present` on.
  let absent = -1n;
  let present = head;
  while (present - absent > 1n) {
    const middle = (absent + present) / 2n;
    const code = await getCodeAt(client, address, middle, retryMs);
    if (code === null) return genesis("the RPC is not an archive node: it has no state of old blocks");
    if (code) present = middle;
    else absent = middle;
  }

  // Some nodes answer "no code" instead of "no state". The block found is then too late.
  const { timestamp } = await getBlock(client, { blockNumber: present });
  if (Number(timestamp) * 1000 > Date.parse(deployedBefore)) {
    return genesis(
      `block ${present}, where the RPC first shows the registry's code, is later than its known deployment: the RPC lacks older state`,
    );
  }
  return { block: Number(present), source: "discovered" };
};
