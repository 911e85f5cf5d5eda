import { type Address, type Client, type Hex, hashMessage, isErc6492Signature, verifyMessage } from "viem";
import { getCode, verifyHash } from "viem/actions";
import { createChainClient } from "../../indexer/chain-transport.ts";
import { networkName } from "../../registry/networks.ts";
import { withDeadline } from "../deadline.ts";
import { Problem } from "../problem.ts";
import type { Account } from "./account.ts";
import { refused } from "./refused.ts";

/** How long a network may take to say whether a signature is a contract's. */
const LONGEST_MS = 8_000;

type Signed = { message: string; signature: Hex; address: Address; chainId: number };

/** Finds out whose signature it is, or refuses it. */
export type VerifySignature = (signed: Signed) => Promise<Account>;

/**
 * Signatures of key pairs are checked here; those of contract wallets by the contract itself (ERC-1271), deployed or
 * not (ERC-6492), on its own network.
 * @param rpcUrls - of each network, by its chain id
 */
export const createVerifier = (rpcUrls: ReadonlyMap<number, readonly string[]>): VerifySignature => {
  const clients = new Map([...rpcUrls].map(([chainId, urls]) => [chainId, createChainClient(chainId, urls)]));

  return async (signed) => {
    const { address, chainId } = signed;
    if (await isKeyPairs(signed)) return { address, chainId: null };
    const client = clients.get(chainId);
    if (!client) {
      throw refused(
        `This is not the signature of the wallet's own key. Smart-contract wallets of ${networkName(chainId)} cannot sign in here: ask the operator to set an RPC of that network for the API.`,
      );
    }
    if (await isContracts(client, signed)) return { address, chainId };
    throw refused(
      `The signature is not this wallet's, neither by its key nor by a contract on ${networkName(chainId)}.`,
    );
  };
};

const isKeyPairs = ({ message, signature, address }: Signed): Promise<boolean> =>
  verifyMessage({ address, message, signature }).catch(() => false);

const isContracts = (client: Client, signed: Signed): Promise<boolean> =>
  withDeadline(LONGEST_MS, askContract(client, signed), () => unreachable(signed.chainId));

const askContract = async (client: Client, { message, signature, address, chainId }: Signed): Promise<boolean> => {
  // viem takes a network that does not answer for a "no": so it is asked for something else first.
  const code = await getCode(client, { address }).catch(() => {
    throw unreachable(chainId);
  });
  if (code === undefined && !isErc6492Signature(signature)) return false;
  return verifyHash(client, { address, hash: hashMessage(message), signature }).catch(() => {
    throw unreachable(chainId);
  });
};

const unreachable = (chainId: number) =>
  new Problem(
    "network-unavailable",
    `${networkName(chainId)} could not be asked about this wallet. Try again in a moment.`,
    {
      headers: { "Retry-After": "5" },
    },
  );
