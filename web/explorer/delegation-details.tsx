import type { ListBlock, Network, Vault } from "../../client/src/index.ts";
import { Address, CopyButton } from "../shared/address.tsx";
import { Avatar } from "../shared/avatar.tsx";
import { amountLabel } from "../shared/labels.ts";
import { formatUtc, TimeAgo } from "../shared/time.tsx";
import { isFullRights, readRights, rightsLabel, scopeLabel, tokenLabel } from "./labels.ts";
import { buildUrl, type WalletViewName } from "./location.ts";
import { buildExplorerUrls } from "./use-networks.ts";

type Delegation = Vault["delegations"][number];

/** Scope of a delegation: type, contract, token, amount and rights. A revoked one has no amount. */
export const Scope = ({ delegation, network }: { delegation: Delegation; network: Network }) => {
  const { contract, rights } = delegation;
  const isFull = isFullRights(rights);
  const tokenId = delegation.tokenId?.toString() ?? null;
  const amount = delegation.amount || null;
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
      <span class="rights" title={isFull ? undefined : rights}>
        {rightsLabel(delegation)}
        {!isFull && readRights(rights) === null && <CopyButton text={rights} what="right" />}
      </span>
    </div>
  );
};

/** Time of a transaction, with a link to it in the block explorer. */
export const TransactionTime = ({ transaction, network }: { transaction: Delegation; network: Network }) => {
  const { blockNumber, transactionHash } = transaction;
  const timestamp = Number(transaction.blockTimestamp);
  const href = buildExplorerUrls(network).transaction(transactionHash);
  const title = `Block ${blockNumber.toLocaleString("en")}, transaction ${transactionHash}`;
  return (
    <div class="when">
      <TimeAgo timestamp={timestamp} />
      {href ? (
        <a class="quiet" href={href} rel="noreferrer" title={title}>
          {formatUtc(timestamp)}
          <span class="visually-hidden">, transaction in the block explorer</span>
        </a>
      ) : (
        <span class="quiet" title={title}>
          {formatUtc(timestamp)}
        </span>
      )}
    </div>
  );
};

/** The registry, and in lists of several networks the network. */
export const Registry = ({ name, network }: { name: string; network: Network | null }) => (
  <span class="registry" title={`In the ${name} registry${network ? ` on ${network.name}` : ""}`}>
    {network && `${network.name} `}
    {name}
    <span class="visually-hidden"> registry</span>
  </span>
);

/** The other wallet of a delegation, with a link to its view. */
export const OtherWallet = ({
  address,
  chainId,
  view,
}: {
  address: string;
  chainId: number | "all";
  view: WalletViewName;
}) => (
  <div class="party">
    <Avatar address={address} />
    <Address value={address} href={buildUrl({ wallet: address, chainId, view })} what="wallet" />
  </div>
);

/** The block that an answer is true at. */
export const AsOfBlock = ({ block: { number, timestamp }, network }: { block: ListBlock; network: Network }) => {
  if (number === null) return <p class="freshness">Before any delegation on {network.name}</p>;
  const href = buildExplorerUrls(network).block(number);
  const text = `block ${number.toLocaleString("en")}`;
  return (
    <p class="freshness">
      As of {href ? <a href={href}>{text}</a> : text}
      {timestamp !== null && (
        <>
          , <TimeAgo timestamp={Number(timestamp)} />
        </>
      )}
    </p>
  );
};
