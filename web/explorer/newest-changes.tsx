import { shortenHex } from "../shared/address.tsx";
import { Avatar } from "../shared/avatar.tsx";
import type { FetchResult } from "../shared/fetch-json.ts";
import { FailureNotice } from "../shared/notice.tsx";
import { TimeAgo } from "../shared/time.tsx";
import type { NewestChangeJson, NewestChangesJson } from "./json.ts";
import { KINDS, scopeLabel } from "./labels.ts";
import { buildUrl } from "./location.ts";

/** Changes that the service sends. */
const COUNT = 10;

type NewestChangesProps = {
  value: NewestChangesJson | null;
  latest: FetchResult<NewestChangesJson> | null;
  retry: () => void;
};

/** The newest changes on all networks, each with a link to its wallet. */
export const NewestChanges = ({ value, latest, retry }: NewestChangesProps) => (
  <section class="newest" aria-labelledby="newest-title">
    <h2 id="newest-title">Newest changes</h2>
    {value === null && latest === null && <Loading />}
    {value === null && latest !== null && latest.kind !== "ok" && <FailureNotice failure={latest} retry={retry} />}
    {value?.newest.length === 0 && <p class="quiet">There are no changes to show yet.</p>}
    {value && value.newest.length > 0 && (
      <ol>
        {value.newest.map((change) => (
          <li key={JSON.stringify(change)} class="change">
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
