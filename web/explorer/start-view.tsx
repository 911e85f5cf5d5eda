import type { Network } from "../../client/src/index.ts";
import { TimeAgo } from "../shared/time.tsx";
import { NewestChanges } from "./newest-changes.tsx";
import { isIndexed } from "./use-networks.ts";
import { useNewestChanges } from "./use-newest-changes.ts";

/** The page without a wallet. */
export const StartView = ({ networks }: { networks: readonly Network[] }) => {
  const newest = useNewestChanges(networks);
  return (
    <>
      <NewestChanges {...newest} />
      {/* Would move when the list above gets its length. */}
      {newest.latest && <IndexedNetworks networks={networks} />}
    </>
  );
};

const STATES: Record<Network["state"], string> = {
  fresh: "up to date",
  behind: "behind its network",
  indexing: "still being indexed",
  unreachable: "cannot be reached",
  "not-indexed": "not indexed",
};

/** The indexed networks with their state. */
const IndexedNetworks = ({ networks }: { networks: readonly Network[] }) => (
  <section class="networks" aria-labelledby="networks-title">
    <h2 id="networks-title">Indexed here</h2>
    <ul>
      {networks.filter(isIndexed).map(({ chainId, name, state, indexedBlock, progress, verification }) => (
        <li key={chainId} class="card" data-state={state}>
          <strong>{name}</strong>
          <span class="state">{STATES[state]}</span>
          <span class="quiet">
            {indexedBlock ? (
              <>
                Block {indexedBlock.number.toLocaleString("en")}, <TimeAgo timestamp={indexedBlock.timestamp} />
              </>
            ) : (
              progress && `${Math.floor(progress.share * 100)} %`
            )}
          </span>
          {verification && <span class="quiet">Verified up to block {verification.block.toLocaleString("en")}</span>}
        </li>
      ))}
    </ul>
    <Verified networks={networks} />
  </section>
);

/** The comparison of all indexes with the registries: of every network the oldest block and time. */
const Verified = ({ networks }: { networks: readonly Network[] }) => {
  const verified = networks.flatMap(({ verification }) => verification ?? []);
  if (verified.length === 0) return null;
  const wallets = verified.reduce((sum, one) => sum + one.wallets, 0);
  const oldest = Math.min(...verified.map(({ at }) => Date.parse(at)));
  return (
    <footer class="quiet">
      {wallets.toLocaleString("en")} times the delegations of a wallet were compared with the registries’ own state, and
      agreed; on every network last <TimeAgo timestamp={oldest / 1000} /> or later.
    </footer>
  );
};
