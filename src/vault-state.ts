import { setTimeout as sleep } from "node:timers/promises";
import type { Context } from "ponder:registry";
import type { Address, Client, Hash } from "viem";
import { readContract } from "viem/actions";
import { getChainClient } from "../indexer/current-plan.ts";
import { registryV1Abi } from "../registry/abi.ts";
import { type DelegationKeyV1, NO_CONTRACT, NO_TOKEN } from "../registry/delegation.ts";
import { type BlockId, getChainProgress } from "./chain-progress.ts";
import { fetchCanonicalHash } from "./fetch-canonical-hash.ts";

const ATTEMPTS = 6;
const FIRST_WAIT_MS = 500;

/** Reads a vault's delegations after a block from the v1 registry itself. */
export const readVaultState = async (
  context: Context,
  registry: Address,
  vault: Address,
  block: BlockId,
): Promise<VaultState> => {
  const chainId = context.chain.id;
  const client = getChainClient(chainId);
  const progress = getChainProgress(context);

  for (let attempt = 1; ; attempt++) {
    try {
      return await readAtBlock(client, registry, vault, block.hash);
    } catch (cause) {
      // Ponder reverts the rows of a replaced block as soon as it sees the reorg, so any state will do. If Ponder does
      // not see the reorg, newest-block.ts finds the block unresolved.
      const canonical = progress.isLive ? await fetchCanonicalHash(client, block.number) : null;
      if (canonical && canonical !== block.hash) {
        progress.markUnresolved(block);
        return unchangedState;
      }
      if (attempt === ATTEMPTS) {
        throw new Error(
          `Cannot read the delegations of ${vault} at block ${block.number} of chain ${chainId}. v1 revocations through a contract wallet need an RPC that has the state of that block: an archive node for old blocks.`,
          { cause },
        );
      }
      await sleep(FIRST_WAIT_MS * 2 ** (attempt - 1));
    }
  }
};

type VaultState = { has: (delegation: DelegationKeyV1) => boolean };

const unchangedState: VaultState = { has: () => true };

/** Reads by hash, not by number: after a reorg the number is another block's. */
const readAtBlock = async (client: Client, address: Address, vault: Address, blockHash: Hash): Promise<VaultState> => {
  const call = { abi: registryV1Abi, address, args: [vault], blockHash } as const;
  const [delegates, contracts, tokens] = await Promise.all([
    readContract(client, { ...call, functionName: "getDelegatesForAll" }),
    readContract(client, { ...call, functionName: "getContractLevelDelegations" }),
    readContract(client, { ...call, functionName: "getTokenLevelDelegations" }),
  ]);

  const remaining = new Set([
    ...delegates.map((delegate) => toKey({ type: "ALL", delegate, contract: NO_CONTRACT, tokenId: NO_TOKEN })),
    ...contracts.map(({ delegate, contract_: contract }) =>
      toKey({ type: "CONTRACT", delegate, contract, tokenId: NO_TOKEN }),
    ),
    ...tokens.map(({ delegate, contract_: contract, tokenId }) =>
      toKey({ type: "TOKEN", delegate, contract, tokenId }),
    ),
  ]);
  return { has: (delegation) => remaining.has(toKey(delegation)) };
};

const toKey = ({ type, delegate, contract, tokenId }: Omit<DelegationKeyV1, "vault">) =>
  `${type} ${delegate} ${contract} ${tokenId}`.toLowerCase();
