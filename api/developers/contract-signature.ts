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
} from "viem";
import { call, getChainId, getCode, readContract } from "viem/actions";
import { createReadClient } from "../../indexer/rpc/read-client.ts";
import { hasCause, isRateLimit, isUnreachable, WrongChainError } from "../../indexer/rpc/rpc-errors.ts";

/** Several times the largest response that is needed, the code of a contract. */
const MAX_RESPONSE_BYTES = 1_048_576;

const ERC1271_ABI = parseAbi(["function isValidSignature(bytes32 hash, bytes signature) view returns (bytes4)"]);
const ERC1271_VALID = "0x1626ba7e";

export type Signed = { message: string; signature: Hex; address: Address; chainId: number };

/** A signature for a contract, and the same with the call that deploys the contract (ERC-6492), if it came with one. */
export type ContractSignature = { plain: Hex; withDeployment: Hex | null };

/** Parses the accepted forms of a contract's signature; null for any other. Decision 35 has the list. */
export const parseContractSignature = (signature: Hex): ContractSignature | null => {
  if (isErc8010Signature(signature)) return null;
  if (!isErc6492Signature(signature)) return { plain: signature, withDeployment: null };
  try {
    return { plain: parseErc6492Signature(signature).signature, withDeployment: signature };
  } catch {
    return null;
  }
};

const isErc8010Signature = (signature: Hex): boolean => signature.endsWith("8010".repeat(16));

/**
 * Asks an RPC whether a contract accepts a signature. The deadline ends the requests themselves.
 * @throws if the RPC does not respond in time, or with too much
 */
export const askContract = async (
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
    if (isDeployed) return (await askDeployed(client, address, [hash, plain])) === ERC1271_VALID;
    return withDeployment !== null && (await askUndeployed(client, [address, hash, withDeployment])) === "0x01";
  } catch (error) {
    if (hasCause(error, isOutage)) throw error;
    // The contract reverted.
    return false;
  }
};

const askDeployed = (client: Client, address: Address, args: readonly [hash: Hex, signature: Hex]): Promise<Hex> =>
  readContract(client, { address, abi: ERC1271_ABI, functionName: "isValidSignature", args });

/** Simulates the deployment, then asks the contract. */
const askUndeployed = async (
  client: Client,
  args: readonly [address: Address, hash: Hex, signature: Hex],
): Promise<Hex | undefined> => {
  const data = encodeDeployData({
    abi: erc6492SignatureValidatorAbi,
    bytecode: erc6492SignatureValidatorByteCode,
    args,
  });
  return (await call(client, { data })).data;
};

const isOutage = (error: unknown): boolean =>
  isUnreachable(error) ||
  isRateLimit(error) ||
  error instanceof ResponseBodyTooLargeError ||
  (error instanceof Error && error.name === "AbortError");
