import { Address, CopyButton } from "../shared/address.tsx";
import { Avatar } from "../shared/avatar.tsx";
import { formatUtc, TimeAgo } from "../shared/time.tsx";
import type { BlockJson, DelegationJson, NetworkJson, TransactionJson } from "./json.ts";
import { amountLabel, rightsLabel, scopeLabel, tokenLabel } from "./labels.ts";
import { buildUrl, type WalletViewName } from "./location.ts";
import { buildExplorerUrls } from "./use-networks.ts";

/** Scope of a delegation: type, contract, token, amount and rights. A revoked one has no amount. */
export const Scope = ({ delegation, network }: { delegation: DelegationJson; network: NetworkJson }) => {
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
          <span class="visually-hidden">Token {tokenId}</span>
          <span aria-hidden="true" title={tokenId}>
            {tokenLabel(tokenId)}
          </span>
          {tokenId.length > 12 && <CopyButton text={tokenId} what="token id" />}
        </span>
      )}
      {contract !== null && (
        <span class="contract">
          {(tokenId !== null || amount !== null) && <span class="quiet">of</span>}
          <Address value={contract} href={buildExplorerUrls(network).address(contract)} what="contract" />
        </span>
      )}
      <span class="rights" title={rights ?? undefined}>
        {rightsLabel(delegation)}
        {rights !== null && rightsText === null && <CopyButton text={rights} what="right" />}
      </span>
    </div>
  );
};

/** Time of a transaction, with a link to it in the block explorer. */
export const TransactionTime = ({ transaction, network }: { transaction: TransactionJson; network: NetworkJson }) => {
  const { blockNumber, blockTimestamp, transactionHash } = transaction;
  const href = buildExplorerUrls(network).transaction(transactionHash);
  const title = `Block ${blockNumber.toLocaleString("en")}, transaction ${transactionHash}`;
  return (
    <div class="when">
      <TimeAgo timestamp={blockTimestamp} />
      {href ? (
        <a class="quiet" href={href} rel="noreferrer" title={title}>
          {formatUtc(blockTimestamp)}
          <span class="visually-hidden">, transaction in the block explorer</span>
        </a>
      ) : (
        <span class="quiet" title={title}>
          {formatUtc(blockTimestamp)}
        </span>
      )}
    </div>
  );
};

export const Registry = ({ name }: { name: string }) => (
  <span class="registry" title={`In the ${name} registry`}>
    {name}
    <span class="visually-hidden"> registry</span>
  </span>
);

/** The other wallet of a delegation, with a link to its view. */
export const OtherWallet = ({
  address,
  network,
  view,
}: {
  address: string;
  network: NetworkJson;
  view: WalletViewName;
}) => (
  <div class="party">
    <Avatar address={address} />
    <Address value={address} href={buildUrl({ wallet: address, chainId: network.chainId, view })} what="wallet" />
  </div>
);

/** The block that an answer is true at. */
export const AsOfBlock = ({ block, network }: { block: BlockJson; network: NetworkJson }) => {
  const href = buildExplorerUrls(network).block(block.number);
  const number = `block ${block.number.toLocaleString("en")}`;
  return (
    <p class="freshness">
      As of {href ? <a href={href}>{number}</a> : number}, <TimeAgo timestamp={block.timestamp} />
    </p>
  );
};
