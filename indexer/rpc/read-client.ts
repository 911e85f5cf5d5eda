import { type Client, createClient, type Transport } from "viem";

/**
 * Creates a client that reads a chain, without a cache. It follows no off-chain lookup (CCIP-Read): a contract would
 * choose a URL, and this process would fetch it.
 */
export const createReadClient = (transport: Transport): Client =>
  createClient({ transport, cacheTime: 0, ccipRead: false });
