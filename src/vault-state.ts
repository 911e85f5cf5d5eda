import { setTimeout as sleep } from "node:timers/promises";
import type { Address, Client, Hash } from "viem";
import { readContract } from "viem/actions";
import { chainClient } from "../indexer/current-plan.ts";
import { registryV1Abi } from "../registry/abi.ts";
import { type DelegationKeyV1, NO_CONTRACT, NO_TOKEN } from "../registry/delegation.ts";
import { canonicalHash } from "./canonical-hash.ts";
import { type BlockId, isLive, leaveUndecided } from "./live-blocks.ts";

const ATTEMPTS = 6;
const FIRST_WAIT_MS = 500;

/** What the v1 registry itself says a vault has delegated, after the given block. */
export const readVaultState = async (
  chainId: number,
  registry: Address,
  vault: Address,
  block: BlockId,
): Promise<VaultState> => {
  const client = chainClient(chainId);

  for (let attempt = 1; ; attempt++) {
    try {
      return await readAtBlock(client, registry, vault, block.hash);
    } catch (cause) {
      // The rows of a block that the chain has replaced are undone as soon as Ponder sees the reorg, so
      // nothing needs to be known of it. Should Ponder not see one, the blocks after it find it open.
      const canonical = isLive(chainId) ? await canonicalHash(client, block.number) : null;
      if (canonical && canonical !== block.hash) {
        leaveUndecided(chainId, block);
        return everythingSurvives;
      }
      if (attempt === ATTEMPTS) {
        throw new Error(
          `Cannot read what ${vault} still delegates at block ${block.number} of chain ${chainId}. v1 revocations made through a contract wallet need an RPC that has the state of that block: an archive node for old blocks.`,
          { cause },
        );
      }
      await sleep(FIRST_WAIT_MS * 2 ** (attempt - 1));
    }
  }
};

type VaultState = { has: (delegation: DelegationKeyV1) => boolean };

const everythingSurvives: VaultState = { has: () => true };

/**
 * By hash, not by number: a number names another block after a reorg, and the answer would be that
 * block's.
 */
const readAtBlock = async (client: Client, address: Address, vault: Address, blockHash: Hash): Promise<VaultState> => {
  const at = { abi: registryV1Abi, address, args: [vault], blockHash } as const;
  const [delegates, contracts, tokens] = await Promise.all([
    readContract(client, { ...at, functionName: "getDelegatesForAll" }),
    readContract(client, { ...at, functionName: "getContractLevelDelegations" }),
    readContract(client, { ...at, functionName: "getTokenLevelDelegations" }),
  ]);

  const survivors = new Set([
    ...delegates.map((delegate) => keyOf({ type: "ALL", delegate, contract: NO_CONTRACT, tokenId: NO_TOKEN })),
    ...contracts.map(({ delegate, contract_: contract }) =>
      keyOf({ type: "CONTRACT", delegate, contract, tokenId: NO_TOKEN }),
    ),
    ...tokens.map(({ delegate, contract_: contract, tokenId }) =>
      keyOf({ type: "TOKEN", delegate, contract, tokenId }),
    ),
  ]);
  return { has: (delegation) => survivors.has(keyOf(delegation)) };
};

const keyOf = ({ type, delegate, contract, tokenId }: Omit<DelegationKeyV1, "vault">) =>
  `${type} ${delegate} ${contract} ${tokenId}`.toLowerCase();
