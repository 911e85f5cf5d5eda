import {
  type Address,
  type Client,
  encodeDeployData,
  erc6492SignatureValidatorAbi,
  erc6492SignatureValidatorByteCode,
  type Hex,
  hashMessage,
  http,
  isErc6492Signature,
  parseAbi,
  parseErc6492Signature,
  ResponseBodyTooLargeError,
  verifyMessage,
} from "viem";
import { call, getChainId, getCode, readContract } from "viem/actions";
import { createReadClient } from "../../indexer/rpc/read-client.ts";
import { hasCause, isRateLimit, isUnreachable, WrongChainError } from "../../indexer/rpc/rpc-errors.ts";
import { networkName } from "../../registry/networks.ts";
import { Problem } from "../problem.ts";
import type { Account } from "./account.ts";
import { FAILURE_SECONDS, type VerificationLimits } from "./verification-limits.ts";

/** Maximum time for a network to verify a contract's signature, over all of its RPC URLs. */
const CONTRACT_TIMEOUT_MS = 8_000;
/** Several times the largest response that is needed, the code of a contract. */
const MAX_RESPONSE_BYTES = 1_048_576;

const ERC1271_ABI = parseAbi(["function isValidSignature(bytes32 hash, bytes signature) view returns (bytes4)"]);
const ERC1271_VALID = "0x1626ba7e";

type Signed = { message: string; signature: Hex; address: Address; chainId: number };

/** A signature for a contract, and the same with the call that deploys the contract (ERC-6492), if it came with one. */
type ContractSignature = { plain: Hex; withDeployment: Hex | null };

/** How contract wallets verify their signatures. */
export type ContractVerification = {
  /** RPC URLs by chain id. */
  rpcUrls: ReadonlyMap<number, readonly string[]>;
  limits: VerificationLimits;
};

/**
 * Verifies a signature by a key pair, or by a contract wallet, which its contract verifies on its own network.
 * @param client - the client that signs in, as the rate limit identifies it
 * @returns the account that signed
 */
export const verifySignature = async (
  signed: Signed,
  client: string,
  { rpcUrls, limits }: ContractVerification,
): Promise<Account> => {
  const { message, signature, address, chainId } = signed;
  if (await verifyMessage({ address, message, signature }).catch(() => false)) return { address, chainId: null };
  const urls = rpcUrls.get(chainId);
  if (!urls) {
    throw new Problem(
      "sign-in-refused",
      `This is not the signature of the wallet's own key. Smart-contract wallets of ${networkName(chainId)} cannot sign in here: ask the operator to set an RPC of that network for the API.`,
    );
  }
  const contractSignature = parseContractSignature(signature);
  if (!contractSignature) {
    throw new Problem(
      "sign-in-refused",
      "This form of signature is not accepted, such as one in an ERC-8010 wrapper. Accepted are those of a private key, of a contract (ERC-1271), and of a contract that is not deployed yet (ERC-6492).",
    );
  }
  const wallet = `${chainId}:${address.toLowerCase()}`;
  await limits.run({ client, wallet }, () => requireContractSignature(signed, contractSignature, urls));
  return { address, chainId };
};

/** Parses the accepted forms of a contract's signature; null for any other. Decision 35 has the list. */
const parseContractSignature = (signature: Hex): ContractSignature | null => {
  if (isErc8010Signature(signature)) return null;
  if (!isErc6492Signature(signature)) return { plain: signature, withDeployment: null };
  try {
    return { plain: parseErc6492Signature(signature).signature, withDeployment: signature };
  } catch {
    return null;
  }
};

const isErc8010Signature = (signature: Hex): boolean => signature.endsWith("8010".repeat(16));

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
      throw new Problem(
        "sign-in-refused",
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

/**
 * Asks an RPC whether a contract accepts a signature. The deadline ends the requests themselves.
 * @throws if the RPC does not respond in time, or with too much
 */
const askContract = async (
  url: string,
  { address, chainId, message }: Signed,
  signature: ContractSignature,
  timeoutMs: number,
): Promise<boolean> => {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), timeoutMs);
  try {
    const client = createReadClient(
      http(url, {
        timeout: timeoutMs,
        retryCount: 0,
        fetchOptions: { signal: controller.signal, redirect: "error" },
        maxResponseBodySize: MAX_RESPONSE_BYTES,
      }),
    );
    const [actual, code] = await Promise.all([getChainId(client), getCode(client, { address })]);
    if (actual !== chainId) throw new WrongChainError(chainId, actual, "The RPC");
    return await isAccepted(client, { address, hash: hashMessage(message), signature, isDeployed: code !== undefined });
  } finally {
    clearTimeout(timer);
    // Ends the other request if one has failed, and a body that is too large.
    controller.abort();
  }
};

type Question = { address: Address; hash: Hex; signature: ContractSignature; isDeployed: boolean };

const isAccepted = async (
  client: Client,
  { address, hash, signature: { plain, withDeployment }, isDeployed }: Question,
): Promise<boolean> => {
  try {
    // The call of an ERC-6492 signature is never made for a contract that exists: it could change its state first.
    if (isDeployed) {
      const question = { address, abi: ERC1271_ABI, functionName: "isValidSignature" } as const;
      return (await readContract(client, { ...question, args: [hash, plain] })) === ERC1271_VALID;
    }
    return withDeployment !== null && (await askUndeployed(client, [address, hash, withDeployment])) === "0x01";
  } catch (error) {
    if (hasCause(error, isOutage)) throw error;
    // The contract reverted.
    return false;
  }
};

/** Simulates the deployment, then asks the contract. */
const askUndeployed = async (
  client: Client,
  args: readonly [address: Address, hash: Hex, signature: Hex],
): Promise<Hex | undefined> => {
  const abi = erc6492SignatureValidatorAbi;
  const data = encodeDeployData({ abi, bytecode: erc6492SignatureValidatorByteCode, args });
  return (await call(client, { data })).data;
};

const isOutage = (error: unknown): boolean =>
  isUnreachable(error) ||
  isRateLimit(error) ||
  error instanceof ResponseBodyTooLargeError ||
  (error instanceof Error && error.name === "AbortError");
