import { FULL_RIGHTS, hasAmount, hasTokenId, isToken } from "../registry/delegation.ts";
import { checksumAddress, checksumContract } from "./checksum-address.ts";
import type { Grant } from "./queries/explorer/explain-check.ts";
import type { ExplorerChange } from "./queries/explorer/read-history.ts";
import type { ExplorerRow } from "./queries/explorer/rows.ts";
import type { Freshness } from "./queries/freshness.ts";

// What the explorer's page is given: docs/explorer-api.md. Digits of any length are strings.

/** The block that an answer is true at. */
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
  rightsText: readText(rights),
  amount: hasAmount(type) ? amount : null,
});

/** Rights as text, if they are printable ASCII with zeros behind. */
const readText = (rights: string): string | null => {
  const [, text] = /^0x((?:[2-6][0-9a-f]|7[0-9a-e])+)(?:00)*$/.exec(rights) ?? [];
  return text === undefined ? null : Buffer.from(text, "hex").toString("latin1");
};

const showPlace = ({ blockNumber, blockTimestamp, transactionHash }: ExplorerRow) => ({
  blockNumber: Number(blockNumber),
  blockTimestamp: Number(blockTimestamp),
  transactionHash,
});

/** A delegation that is active, and since when. */
export const showActive = (row: ExplorerRow) => ({ ...showDelegation(row), since: showPlace(row) });

export const showGrant = (grant: Grant) => ({ ...showActive(grant), gives: grant.gives });

/** A change, as the wallet sees it. */
export const showChange = (change: ExplorerChange, wallet: string) => ({
  id: `${change.blockNumber}-${change.logIndex}-${change.ordinal}`,
  kind: !change.active ? "revoked" : change.wasActive ? "changed" : "made",
  direction: change.delegate === wallet ? "in" : "out",
  event: change.event,
  ...showDelegation(change),
  ...showPlace(change),
});
