import type { Network } from "../../client/src/index.ts";
import { TimeAgo } from "../shared/time.tsx";
import { usePolledJson } from "../shared/use-polled-json.ts";
import type { NewestChangesJson } from "./json.ts";
import { NewestChanges } from "./newest-changes.tsx";
import { isIndexed } from "./use-networks.ts";

const REFRESH_SECONDS = 60;

/** The page without a wallet. */
export const StartView = ({ networks }: { networks: readonly Network[] }) => {
  const newest = usePolledJson<NewestChangesJson>("/insights/newest", REFRESH_SECONDS);
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
      {networks.filter(isIndexed).map(({ chainId, name, state, indexedBlock, progress }) => (
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
        </li>
      ))}
    </ul>
  </section>
);
