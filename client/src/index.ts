export type { AnsweredBlock } from "./block.ts";
export {
  type ChainReader,
  type CheckAnswer,
  type CheckResult,
  type ClientOptions,
  createClient,
  type Network,
  type ProofReader,
  type RegistryClient,
} from "./client.ts";
export type {
  Delegate,
  DelegationV1,
  DelegationV2,
  List,
  ListBlock,
  Page,
  ScopeOptions,
  Vault,
  WalletChange,
  WalletDelegation,
  WalletList,
  WalletOptions,
  WalletPage,
} from "./lists.ts";
export type { Address, Check, Hex, Integer, Rights } from "./questions.ts";
export type { Limit } from "./rate-limit.ts";
export { type Problem, RegistryError } from "./registry-error.ts";
export type { Wait } from "./transport.ts";
