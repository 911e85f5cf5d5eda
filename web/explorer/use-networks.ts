import { useEffect } from "preact/hooks";
import { useAnswer } from "../shared/use-answer.ts";
import type { Network, Networks } from "./json.ts";

/** How often to look. Asking for networks is not limited, and asks no database. */
const WATCH_MS = 15_000;
const WATCH_CLOSELY_MS = 3_000;

/** Every network, and how it is doing: watched closely while one that matters is being indexed. */
export const useNetworks = (chainId: number | null) => {
  const { answer, again, refresh } = useAnswer<Networks>("/explorer/networks");
  const networks = answer?.kind === "answered" ? answer.value.networks : null;
  const network = networks && chooseNetwork(networks, chainId);
  const isIndexing = network?.state === "indexing" || network?.state === "unreachable";
  useEffect(() => {
    const look = () => {
      if (!document.hidden) refresh();
    };
    const timer = setInterval(look, isIndexing ? WATCH_CLOSELY_MS : WATCH_MS);
    return () => clearInterval(timer);
  }, [isIndexing, refresh]);
  return { answer, again, networks, network };
};

/** Where none is named: Ethereum if it is indexed here, or the first that is. */
const chooseNetwork = (networks: readonly Network[], chainId: number | null): Network | null => {
  if (chainId !== null) return networks.find((network) => network.chainId === chainId) ?? null;
  const indexed = networks.filter(isIndexed);
  return indexed.find(({ chainId }) => chainId === 1) ?? indexed[0] ?? networks[0] ?? null;
};

export const isIndexed = ({ state }: Network): boolean => state !== "not-indexed";

/** The pages of a network's block explorer, where one is known. */
export const explorerLinks = ({ blockExplorer }: Network) => {
  const to = (kind: string) => (value: string | number) =>
    blockExplorer === null ? undefined : `${blockExplorer}/${kind}/${value}`;
  return { address: to("address"), transaction: to("tx"), block: to("block") };
};
