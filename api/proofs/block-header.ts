import { type Hex, toRlp, trim } from "viem";

/** A block as `eth_getBlockByNumber` returns it. */
export type RpcBlock = Readonly<Record<string, unknown>> & { hash: Hex; number: Hex };

/** The fields of a header in their order: those of every network, and those that each fork of Ethereum has added. */
const FIELDS = [
  "parentHash",
  "sha3Uncles",
  "miner",
  "stateRoot",
  "transactionsRoot",
  "receiptsRoot",
  "logsBloom",
  "difficulty",
  "number",
  "gasLimit",
  "gasUsed",
  "timestamp",
  "extraData",
  "mixHash",
  "nonce",
];
const ADDED_FIELDS = [
  "baseFeePerGas",
  "withdrawalsRoot",
  "blobGasUsed",
  "excessBlobGas",
  "parentBeaconBlockRoot",
  "requestsHash",
];

/** Numbers have no leading zeros in a header. */
const NUMBERS = [
  "difficulty",
  "number",
  "gasLimit",
  "gasUsed",
  "timestamp",
  "baseFeePerGas",
  "blobGasUsed",
  "excessBlobGas",
];

/** Encodes a block's header. Its hash is not the block's on networks with fields of their own. */
export const encodeHeader = (block: RpcBlock): Hex => {
  const added = ADDED_FIELDS.filter((name) => typeof block[name] === "string");
  return toRlp([...FIELDS, ...added].map((name) => encodeField(name, block[name])));
};

const encodeField = (name: string, value: unknown): Hex => {
  const hex = typeof value === "string" && /^0x[0-9a-f]*$/i.test(value) ? value.slice(2) : "";
  const bytes: Hex = `0x${hex.length % 2 === 1 ? "0" : ""}${hex}`;
  if (!NUMBERS.includes(name)) return bytes;
  const trimmed = trim(bytes);
  return trimmed === "0x00" ? "0x" : trimmed;
};
