import { shortenHex } from "../shared/address.tsx";
import { Avatar } from "../shared/avatar.tsx";
import { FailureNotice } from "../shared/notice.tsx";
import { TimeAgo } from "../shared/time.tsx";
import type { NewestChangeJson } from "./json.ts";
import { KINDS, scopeLabel } from "./labels.ts";
import { buildUrl } from "./location.ts";
import { COUNT, keyOf, type useNewestChanges } from "./use-newest-changes.ts";

/** The newest changes on all networks, each with a link to its wallet. */
export const NewestChanges = ({
  newest,
  arrived,
  summary,
  isLive,
  latest,
  retry,
}: ReturnType<typeof useNewestChanges>) => (
  <section class="newest" aria-labelledby="newest-title">
    <header>
      <h2 id="newest-title">Newest changes</h2>
      {isLive && <span class="live">Live</span>}
    </header>
    {/* Not the rows: a busy network would never let a screen reader finish. */}
    <p class="visually-hidden" aria-live="polite">
      {summary}
    </p>
    {newest === null && latest === null && <Loading />}
    {newest === null && latest !== null && latest.kind !== "ok" && <FailureNotice failure={latest} retry={retry} />}
    {newest?.length === 0 && <p class="quiet">There are no changes to show yet.</p>}
    {newest && newest.length > 0 && (
      <ol>
        {newest.map((change) => (
          <li key={keyOf(change)} class={arrived.has(keyOf(change)) ? "change arrived" : "change"}>
            <ChangeLink change={change} />
          </li>
        ))}
      </ol>
    )}
  </section>
);

/** As high as the list. */
const Loading = () => (
  <>
    <p class="visually-hidden" role="status">
      Loading
    </p>
    <ol aria-hidden="true">
      {Array.from({ length: COUNT }, (_, index) => (
        <li key={index} class="change skeleton" />
      ))}
    </ol>
  </>
);

const ChangeLink = ({ change }: { change: NewestChangeJson }) => {
  const { kind, vault, delegate, contract, chainId, network, blockTimestamp } = change;
  return (
    <a class="change-link" href={buildUrl({ wallet: vault, chainId, view: "history" })} data-kind={kind}>
      <span class="change-line">
        <strong class="kind">{KINDS[kind]}</strong>{" "}
        <span class="wallets">
          <Avatar address={vault} size={24} />
          <span title={vault}>{shortenHex(vault)}</span> <span aria-hidden="true">→</span>
          <span class="visually-hidden">to</span> <span title={delegate}>{shortenHex(delegate)}</span>
        </span>
      </span>{" "}
      <span class="change-line">
        <span>
          <span class="chip strong">{scopeLabel(change)}</span>{" "}
          {contract !== null && (
            <span class="change-contract quiet" title={contract}>
              {shortenHex(contract)}
            </span>
          )}
        </span>{" "}
        <span class="quiet">{network}</span> <TimeAgo timestamp={blockTimestamp} />
      </span>
    </a>
  );
};
