import { Notice } from "../shared/notice.tsx";
import type { Network } from "./json.ts";
import { isIndexed } from "./use-networks.ts";

/** Why nothing is known of a network, where that can be told without asking. */
export const networkTrouble = (network: Network | null): "unknown" | "not-indexed" | "indexing" | null => {
  if (network === null) return "unknown";
  return network.state === "not-indexed" || network.state === "indexing" ? network.state : null;
};

type Props = { network: Network | null; networks: readonly Network[]; hrefOn: (chainId: number) => string };

/** Says it, and where else one could look. */
export const NetworkNotice = ({ network, networks, hrefOn }: Props) => {
  const indexed = networks.filter(isIndexed);
  if (network?.state === "indexing" && network.progress) {
    const { share, reachedBlock, newestBlock } = network.progress;
    return (
      <Notice title={`${network.name} is still being indexed`} tone="poor">
        <p>
          Block {reachedBlock.toLocaleString("en")} of {newestBlock.toLocaleString("en")} is reached. Until then nothing
          is said of it: an answer could be wrong.
        </p>
        <progress value={share} max={1} aria-label={`${network.name}, indexed`} />
        <p class="progress-label">{Math.floor(share * 100)} %, this page goes on by itself</p>
      </Notice>
    );
  }
  return (
    <Notice title={network ? `${network.name} is not indexed here` : "There is no registry on this network"}>
      <p>
        {network
          ? "Its registry is known, but this service does not follow it. That says nothing about the wallet."
          : "No network with this chain id is known to have one."}
      </p>
      {indexed.length > 0 && (
        <p>
          Indexed here:{" "}
          {indexed.map(({ chainId, name }, place) => (
            <>
              {place > 0 && ", "}
              <a key={chainId} href={hrefOn(chainId)}>
                {name}
              </a>
            </>
          ))}
        </p>
      )}
    </Notice>
  );
};
