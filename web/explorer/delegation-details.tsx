import { Address, CopyButton } from "../shared/address.tsx";
import { Ago, utc } from "../shared/time.tsx";
import type { Delegation, Network, Place } from "./json.ts";
import { explorerLinks } from "./use-networks.ts";
import { amountLabel, rightsLabel, scopeLabel, tokenLabel } from "./words.ts";

/** What a delegation covers: its scope, contract, token, amount and rights. One that was revoked has no amount. */
export const Scope = ({ delegation, network }: { delegation: Delegation; network: Network }) => {
  const { contract, tokenId, rights, rightsText } = delegation;
  const amount = delegation.amount === "0" ? null : delegation.amount;
  return (
    <div class="scope">
      <span class="chip strong">{scopeLabel(delegation)}</span>
      {amount !== null && (
        <span class="amount">
          {amountLabel(amount)}
          {tokenId !== null && <span class="quiet"> ×</span>}
        </span>
      )}
      {tokenId !== null && (
        <span class="token">
          <span class="unseen">Token {tokenId}</span>
          <span aria-hidden="true" title={tokenId}>
            {tokenLabel(tokenId)}
          </span>
          {tokenId.length > 12 && <CopyButton text={tokenId} what="token id" />}
        </span>
      )}
      {contract !== null && (
        <span class="contract">
          {(tokenId !== null || amount !== null) && <span class="quiet">of</span>}
          <Address value={contract} href={explorerLinks(network).address(contract)} what="contract" />
        </span>
      )}
      <span class="rights" title={rights ?? undefined}>
        {rightsLabel(delegation)}
        {rights !== null && rightsText === null && <CopyButton text={rights} what="right" />}
      </span>
    </div>
  );
};

/** When something happened, and where to see it. */
export const When = ({ place, network }: { place: Place; network: Network }) => {
  const { blockNumber, blockTimestamp, transactionHash } = place;
  const href = explorerLinks(network).transaction(transactionHash);
  const title = `Block ${blockNumber.toLocaleString("en")}, transaction ${transactionHash}`;
  return (
    <div class="when">
      <Ago timestamp={blockTimestamp} />
      {href ? (
        <a class="quiet" href={href} rel="noreferrer" title={title}>
          {utc(blockTimestamp)}
          <span class="unseen">, transaction in the block explorer</span>
        </a>
      ) : (
        <span class="quiet" title={title}>
          {utc(blockTimestamp)}
        </span>
      )}
    </div>
  );
};
