import type { Network } from "../../client/src/index.ts";
import { Notice } from "../shared/notice.tsx";
import { isIndexed } from "./use-networks.ts";

/** False if the service cannot answer for a network, known without a request. */
export const isAnswerable = (network: Network | null): network is Network =>
  network !== null && network.state !== "not-indexed" && network.state !== "indexing";

type NetworkNoticeProps = {
  network: Network | null;
  networks: readonly Network[];
  urlOn: (chainId: number) => string;
};

/** Explains why there are no answers for a network, and links to the same view on others. */
export const NetworkNotice = ({ network, networks, urlOn }: NetworkNoticeProps) => {
  if (network?.state === "indexing" && network.progress) {
    const { share, reachedBlock, newestBlock } = network.progress;
    return (
      <Notice title={`${network.name} is still being indexed`} tone="poor">
        <p>
          Block {reachedBlock.toLocaleString("en")} of {newestBlock.toLocaleString("en")} is indexed. There are no
          answers before the last one: they could be wrong.
        </p>
        <progress value={share} max={1} aria-label={`${network.name}, indexed`} />
        <p class="progress-label">{Math.floor(share * 100)} %. This page continues automatically.</p>
      </Notice>
    );
  }
  const indexed = networks.filter(isIndexed);
  return (
    <Notice title={network ? `${network.name} is not indexed here` : "There is no registry on this network"}>
      <p>
        {network
          ? "This network has a registry, but this service does not index it. That says nothing about the wallet."
          : "No known registry is on a network with this chain id."}
      </p>
      {indexed.length > 0 && (
        <p>
          Indexed here:{" "}
          {indexed.map(({ chainId, name }, index) => (
            <>
              {index > 0 && ", "}
              <a key={chainId} href={urlOn(chainId)}>
                {name}
              </a>
            </>
          ))}
        </p>
      )}
    </Notice>
  );
};
