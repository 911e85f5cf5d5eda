import {
  type Abi,
  type Address,
  type ContractFunctionArgs,
  type ContractFunctionName,
  encodeFunctionData,
  type Hex,
  parseAbi,
} from "viem";
import { registryV1Abi, registryV2Abi } from "../registry/abi.ts";

type Write = "nonpayable" | "payable";

const encode = (abi: Abi, functionName: string, args: unknown): Hex =>
  encodeFunctionData({ abi, functionName, args: Array.isArray(args) ? args : [] });

/** Encodes the call data of a write to the v1 registry. */
export const encodeV1 = <F extends ContractFunctionName<typeof registryV1Abi, Write>>(
  functionName: F,
  args: ContractFunctionArgs<typeof registryV1Abi, Write, F>,
): Hex => encode(registryV1Abi, functionName, args);

/** Encodes the call data of a write to the v2 registry. */
export const encodeV2 = <F extends ContractFunctionName<typeof registryV2Abi, Write>>(
  functionName: F,
  args: ContractFunctionArgs<typeof registryV2Abi, Write, F>,
): Hex => encode(registryV2Abi, functionName, args);

export type Call = { target: Address; data: Hex };

const contractWalletAbi = parseAbi([
  "function execute(address target, bytes data)",
  "function executeBatch(address[] targets, bytes[] data)",
]);

/** Encodes the call data that makes a contract wallet send calls: one directly, several as a batch. */
export const encodeWalletCalls = (calls: readonly Call[]): Hex => {
  const [first, ...others] = calls;
  if (first && others.length === 0) {
    return encodeFunctionData({ abi: contractWalletAbi, functionName: "execute", args: [first.target, first.data] });
  }
  return encodeFunctionData({
    abi: contractWalletAbi,
    functionName: "executeBatch",
    args: [calls.map(({ target }) => target), calls.map(({ data }) => data)],
  });
};
