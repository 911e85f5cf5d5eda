import { blockExplorers } from "../../registry/block-explorers.ts";
import { networks } from "../../registry/networks.ts";
import { type ChainState, newestKnownBlock, type Shards } from "../shards/shards.ts";

/** Shows every network with a registry, mainnets first, and the state of its index. */
export const showNetworks = (shards: Shards, isReachable: boolean) => {
  const states = new Map(shards.chainStates().map((state) => [state.chainId, state]));
  const all = [...networks.values()].toSorted((a, b) => Number(a.testnet) - Number(b.testnet));
  return {
    maxLagSeconds: shards.maxLagSeconds,
    networks: all.map((network) => ({
      chainId: network.chainId,
      name: network.name,
      testnet: network.testnet,
      status: network.status,
      blockExplorer: blockExplorers.get(network.chainId) ?? null,
      registries: { v1: network.v1?.address ?? null, v2: network.v2?.address ?? null },
      ...showState(states.get(network.chainId), states.size > 0, isReachable),
    })),
  };
};

const OUT_OF_REACH = "The database is out of reach.";

const showState = (state: ChainState | undefined, hasChains: boolean, isReachable: boolean) => {
  if (!state) {
    // The chains of a database that was never reached are unknown.
    const isUnknown = !hasChains && !isReachable;
    return {
      state: isUnknown ? "unreachable" : "not-indexed",
      reason: isUnknown ? OUT_OF_REACH : null,
      indexedBlock: null,
      newestBlock: null,
      progress: null,
    };
  }
  const { freshness, notReadyReason } = state;
  const newest = newestKnownBlock(state);
  return {
    state: !isReachable ? "unreachable" : notReadyReason === null ? "fresh" : freshness ? "behind" : "indexing",
    reason: isReachable ? notReadyReason : OUT_OF_REACH,
    indexedBlock: freshness && {
      number: Number(freshness.indexedBlock),
      timestamp: Number(freshness.indexedBlockTimestamp),
    },
    newestBlock: {
      number: newest,
      timestamp: Math.max(state.newestBlockTimestamp, Number(freshness?.indexedBlockTimestamp ?? 0)),
    },
    progress: freshness ? null : showProgress(state, newest),
  };
};

/** Shows the progress of an index, in blocks. */
const showProgress = ({ startBlock, reachedBlock }: ChainState, newest: number) => {
  const start = Math.min(startBlock, newest);
  const reached = Math.min(Math.max(reachedBlock, start), newest);
  return {
    startBlock: start,
    reachedBlock: reached,
    newestBlock: newest,
    share: newest > start ? (reached - start) / (newest - start) : 0,
  };
};
