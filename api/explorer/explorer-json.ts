import { FULL_RIGHTS, hasAmount, hasTokenId, isToken } from "../../registry/delegation.ts";
import type { Freshness } from "../database/freshness.ts";
import { checksumAddress, checksumContract } from "../delegations/checksum-address.ts";
import type { Grant } from "./explain-check.ts";
import type { ExplorerRow } from "./explorer-rows.ts";
import type { ExplorerChangeRow } from "./read-history.ts";

// The explorer's JSON: docs/explorer-api.md. Digits of any length are strings.

export const showBlock = ({ indexedBlock, indexedBlockTimestamp, finalizedBlock }: Freshness) => ({
  number: Number(indexedBlock),
  timestamp: Number(indexedBlockTimestamp),
  finalized: Number(finalizedBlock),
});

const showDelegation = ({ registry, type, vault, delegate, contract, tokenId, rights, amount }: ExplorerRow) => ({
  registry,
  type: isToken(type) ? "TOKEN" : type,
  tokenStandard: registry === "v2" && isToken(type) ? type : null,
  from: checksumAddress(vault),
  to: checksumAddress(delegate),
  contract: type === "ALL" ? null : checksumContract(contract),
  tokenId: hasTokenId(type) ? tokenId : null,
  rights: rights === FULL_RIGHTS ? null : rights,
  rightsText: decodeRights(rights),
  amount: hasAmount(type) ? amount : null,
});

/** Decodes rights that are printable ASCII, padded with zeros. */
const decodeRights = (rights: string): string | null => {
  const [, text] = /^0x((?:[2-6][0-9a-f]|7[0-9a-e])+)(?:00)*$/.exec(rights) ?? [];
  return text === undefined ? null : Buffer.from(text, "hex").toString("latin1");
};

const showEvent = ({ blockNumber, blockTimestamp, transactionHash }: ExplorerRow) => ({
  blockNumber: Number(blockNumber),
  blockTimestamp: Number(blockTimestamp),
  transactionHash,
});

/** Shows an active delegation, and the event that made it active. */
export const showActive = (row: ExplorerRow) => ({ ...showDelegation(row), since: showEvent(row) });

export const showGrant = (grant: Grant) => ({ ...showActive(grant), gives: grant.gives });

/** Shows a change from the wallet's side. */
export const showChange = (change: ExplorerChangeRow, wallet: string) => ({
  id: `${change.blockNumber}-${change.logIndex}-${change.ordinal}`,
  kind: !change.active ? "revoked" : change.wasActive ? "changed" : "made",
  direction: change.delegate === wallet ? "in" : "out",
  event: change.event,
  ...showDelegation(change),
  ...showEvent(change),
});
