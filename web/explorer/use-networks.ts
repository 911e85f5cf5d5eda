import { useEffect } from "preact/hooks";
import type { Network } from "../../client/src/index.ts";
import { useNetworkStates } from "../shared/use-registry.ts";

// Requests for the networks are not rate limited and run no query.
const REFRESH_MS = 15_000;
const REFRESH_WHILE_INDEXING_MS = 3_000;

/** The networks that a view is about: one, or all. */
export type NetworkChoice = { chainId: number | "all"; name: string; find: (chainId: number) => Network };

/** All networks with their state, and the chosen one. @param chainId - "all": none of them is chosen */
export const useNetworks = (chainId: string | null) => {
  const { result, retry, refresh } = useNetworkStates();
  const networks = result?.kind === "ok" ? result.value : null;
  const network = networks && chooseNetwork(networks, chainId === null || chainId === "all" ? null : Number(chainId));
  const isIndexing = network?.state === "indexing" || network?.state === "unreachable";
  useEffect(() => {
    const refreshIfVisible = () => {
      if (!document.hidden) refresh();
    };
    const timer = setInterval(refreshIfVisible, isIndexing ? REFRESH_WHILE_INDEXING_MS : REFRESH_MS);
    return () => clearInterval(timer);
  }, [isIndexing, refresh]);
  return { result, retry, networks, network };
};

/** Without a chain id, chooses Ethereum if it is indexed, otherwise the first indexed network. */
const chooseNetwork = (networks: readonly Network[], chainId: number | null): Network | null => {
  if (chainId !== null) return networks.find((network) => network.chainId === chainId) ?? null;
  const indexed = networks.filter(isIndexed);
  return indexed.find(({ chainId }) => chainId === 1) ?? indexed[0] ?? networks[0] ?? null;
};

/** Makes a choice of a network, or of all. */
export const createChoice = (networks: readonly Network[], network: Network, isAll: boolean): NetworkChoice => ({
  chainId: isAll ? "all" : network.chainId,
  name: isAll ? "all networks" : network.name,
  find: (chainId) => networks.find((one) => one.chainId === chainId) ?? network,
});

export const isIndexed = ({ state }: Network): boolean => state !== "not-indexed";

/** Builds URLs of the network's block explorer; undefined if none is known. */
export const buildExplorerUrls = ({ blockExplorer }: Network) => {
  const build = (kind: string) => (value: string | bigint) =>
    blockExplorer === null ? undefined : `${blockExplorer}/${kind}/${value}`;
  return { address: build("address"), transaction: build("tx"), block: build("block") };
};
