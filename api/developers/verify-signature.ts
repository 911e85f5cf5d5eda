import { type Hex, verifyMessage } from "viem";
import { networkName } from "../../registry/networks.ts";
import { Problem } from "../problem.ts";
import type { Account } from "./account.ts";
import { askContract, type ContractSignature, parseContractSignature, type Signed } from "./contract-signature.ts";
import { signInRefused } from "./sign-in-refused.ts";
import { FAILURE_SECONDS, VerificationLimits } from "./verification-limits.ts";

/** Maximum time for a network to verify a contract's signature, over all of its RPC URLs. */
const CONTRACT_TIMEOUT_MS = 8_000;

/**
 * Returns the account that signed, or throws a Problem.
 * @param client - the client that signs in, as the rate limit identifies it
 */
export type VerifySignature = (signed: Signed, client: string) => Promise<Account>;

export type RpcUrls = ReadonlyMap<number, readonly string[]>;

/**
 * Creates a verifier of signatures by key pairs, and by contract wallets, which their contract verifies on its own
 * network.
 * @param rpcUrls - RPC URLs by chain id
 */
export const createVerifier = (rpcUrls: RpcUrls, now?: () => number): VerifySignature => {
  const limits = new VerificationLimits(now);

  return async (signed, client) => {
    const { address, chainId } = signed;
    if (await isSignedByKey(signed)) return { address, chainId: null };
    const urls = rpcUrls.get(chainId);
    if (!urls) {
      throw signInRefused(
        `This is not the signature of the wallet's own key. Smart-contract wallets of ${networkName(chainId)} cannot sign in here: ask the operator to set an RPC of that network for the API.`,
      );
    }
    const wallet = `${chainId}:${address.toLowerCase()}`;
    const signature = requireAcceptedForm(signed.signature);
    await limits.run({ client, wallet }, () => requireContractSignature(signed, signature, urls));
    return { address, chainId };
  };
};

const isSignedByKey = ({ message, signature, address }: Signed): Promise<boolean> =>
  verifyMessage({ address, message, signature }).catch(() => false);

const requireAcceptedForm = (text: Hex): ContractSignature => {
  const signature = parseContractSignature(text);
  if (signature) return signature;
  throw signInRefused(
    "This form of signature is not accepted, such as one in an ERC-8010 wrapper. Accepted are those of a private key, of a contract (ERC-1271), and of a contract that is not deployed yet (ERC-6492).",
  );
};

/** Asks one RPC after another until one responds. Throws a Problem unless the contract accepts the signature. */
const requireContractSignature = async (
  signed: Signed,
  signature: ContractSignature,
  urls: readonly string[],
): Promise<void> => {
  const network = networkName(signed.chainId);
  for (const url of urls) {
    const timeoutMs = CONTRACT_TIMEOUT_MS / urls.length;
    const isAccepted = await askContract(url, signed, signature, timeoutMs).catch(() => null);
    if (isAccepted) return;
    if (isAccepted === false) {
      throw signInRefused(
        `This is not the wallet's signature, neither by its key nor by a contract on ${network}. Try again in ${FAILURE_SECONDS} s.`,
      );
    }
  }
  throw new Problem(
    "network-unavailable",
    `${network} does not respond, so this signature cannot be verified. Try again in ${FAILURE_SECONDS} s.`,
    { headers: { "Retry-After": String(FAILURE_SECONDS) } },
  );
};
