import { orAborted } from "./abortable.ts";
import type { AnsweredBlock } from "./block.ts";
import { type Answer, CheckBatch } from "./check-batch.ts";
import { type Checks, NAMES } from "./checks.ts";
import {
  type Delegate,
  type DelegationV1,
  type DelegationV2,
  type List,
  listRegistry,
  listWallet,
  type RegistryListOptions,
  type ScopeOptions,
  type Vault,
  type WalletChange,
  type WalletDelegation,
  type WalletList,
  type WalletOptions,
} from "./lists.ts";
import type { components } from "./openapi.ts";
import {
  type Address,
  type AnyCheck,
  type AtBlock,
  type Check,
  type CheckName,
  type CheckParameters,
  type Question,
  type RegistryVersion,
  toQuestion,
} from "./questions.ts";
import { notAnAnswer, RegistryError } from "./registry-error.ts";
import { Transport, type TransportOptions } from "./transport.ts";

/** Asks the registries themselves: `readChain()` of `delegation-registry-client/chain`. */
export type ChainReader = {
  canRead: (question: Question) => boolean;
  /** @param block - a past block; by default the newest one */
  read: (question: Question, block: bigint | "finalized" | undefined) => Promise<boolean | bigint>;
};

/** Asks the service for proven answers: `requireProofs()` of `delegation-registry-client/proof`. */
export type ProofReader = (
  transport: Pick<Transport, "send">,
  question: Question,
  at: AtBlock,
  signal: AbortSignal | undefined,
) => Promise<Answer>;

export type ClientOptions = TransportOptions & {
  /** Sends checks that are asked in the same tick as one request; true by default. */
  batch?: boolean;
  /** Asks the registries themselves, to verify answers or instead of the service. */
  chain?: ChainReader;
  /** Holds answers to checks against the registry at the block of the answer: all, or a share of them from 0 to 1. */
  verify?: boolean | number;
  /** Asks for each answer to a check with its proof, and verifies it. */
  proofs?: ProofReader;
  /** "chain": where the service cannot answer a check, the registry does. */
  fallback?: "chain";
};

type Networks = components["schemas"]["Networks"];
export type Network = Networks["networks"][number];

/** An answer to a check of any kind: balances are of type bigint. */
export type CheckAnswer = {
  value: boolean | bigint;
  /** Null if the registry itself has answered. */
  block: AnsweredBlock | null;
};

/** An answer to one of many checks, or why there is none. */
export type CheckResult = (CheckAnswer & { error?: never }) | { error: RegistryError; value?: never; block?: never };

type AskOptions = AtBlock & { signal?: AbortSignal };

type AskChecks<Version extends RegistryVersion> = {
  [Name in keyof Checks[Version] & string as `check${Capitalize<Name>}`]: (
    parameters: CheckParameters[Version][Name],
  ) => Promise<Checks[Version][Name] extends { answer: infer Answer } ? Answer : never>;
};

export type RegistryClient = {
  /** The v1 registry's checks and lists. */
  v1: AskChecks<"v1"> & { delegations: (wallet: Address, options?: RegistryListOptions) => List<DelegationV1> };
  /** The v2 registry's checks and lists. Balances are of type bigint. */
  v2: AskChecks<"v2"> & { delegations: (wallet: Address, options?: RegistryListOptions) => List<DelegationV2> };
  /** Answers a check of any kind, with the block of the answer. */
  check: (check: Check, options?: AskOptions) => Promise<CheckAnswer>;
  /** Answers any number of checks of any kind, in their order. Each fails alone. */
  checks: (checks: readonly Check[], options?: AskOptions) => Promise<CheckResult[]>;
  /** The cold wallets for which a hot wallet may act. */
  vaults: (wallet: Address, options?: ScopeOptions & WalletOptions & { vault?: Address }) => WalletList<Vault>;
  /** The hot wallets that may act for a cold wallet. */
  delegates: (wallet: Address, options?: ScopeOptions & WalletOptions & { delegate?: Address }) => WalletList<Delegate>;
  /** All delegations from and to a wallet. */
  delegations: (
    wallet: Address,
    options?: WalletOptions & { direction?: "incoming" | "outgoing" | "both" },
  ) => WalletList<WalletDelegation>;
  /** All changes of a wallet's delegations, the newest first. */
  history: (wallet: Address, options?: WalletOptions) => WalletList<WalletChange>;
  /** The networks, and whether each is indexed. */
  networks: (options?: { signal?: AbortSignal }) => Promise<Network[]>;
};

/** Creates a client of a service. */
export const createClient = (options: ClientOptions): RegistryClient => {
  const transport = new Transport(options);
  const { retries = 3, batch = true, chain, proofs } = options;
  if (!chain && (options.verify || options.fallback)) {
    throw new TypeError("To verify answers, or to fall back to the registries, set chain: readChain(…).");
  }
  const checks = new CheckBatch(transport, { retries, batch, hasKey: Boolean(options.apiKey) });

  const ask = async (check: AnyCheck, { signal, ...at }: AskOptions = {}): Promise<CheckAnswer> => {
    const question = toQuestion(check);
    const askService = () => (proofs ? proofs(transport, question, at, signal) : checks.ask(question, at, signal));
    let answer: Answer;
    try {
      answer = await askService();
    } catch (error) {
      const canWait = error instanceof RegistryError && error.isRetryable;
      // The node may be behind the block that the answer needs at least.
      const canFallBack = options.fallback === "chain" && canWait && at.minBlock === undefined;
      if (!canFallBack || !chain?.canRead(question)) throw error;
      return { value: await orAborted(chain.read(question, toBlock(at)), signal), block: null };
    }
    if (!chain || !isChosen(options.verify)) return answer;
    return orAborted(verify(chain, question, answer, askService), signal);
  };
  const askOne = (registry: RegistryVersion, check: CheckName) => async (asked: AskedCheck) => {
    const { block, minBlock, signal, ...parameters } = asked;
    const { value } = await ask({ ...parameters, registry, check }, { block, minBlock, signal });
    return value;
  };
  const ofRegistry = (version: RegistryVersion) => ({
    ...Object.fromEntries(
      NAMES[version].map((name) => [`check${name[0]?.toUpperCase()}${name.slice(1)}`, askOne(version, name)]),
    ),
    delegations: (wallet: Address, list: RegistryListOptions = {}) => listRegistry(transport, version, wallet, list),
  });
  const ofWallet =
    (name: string, field = name) =>
    (wallet: Address, list: WalletOptions & ScopeOptions = {}) =>
      listWallet(transport, { wallet, name, field }, list);

  return {
    v1: ofRegistry("v1"),
    v2: ofRegistry("v2"),
    check: ask,
    checks: (all, at) =>
      Promise.all(
        all.map((check) =>
          ask(check, at).catch((error): CheckResult => {
            if (error instanceof RegistryError) return { error };
            throw error;
          }),
        ),
      ),
    vaults: ofWallet("vaults"),
    delegates: ofWallet("delegates"),
    delegations: ofWallet("delegations"),
    history: ofWallet("history", "changes"),
    networks: async ({ signal } = {}) => {
      const { json } = await transport.send({ path: "/networks", signal });
      const { networks } = (json ?? {}) as Networks;
      if (!Array.isArray(networks)) throw notAnAnswer(json);
      return networks;
    },
  } as RegistryClient;
};

/** The parameters of any check. */
type AskedCheck = Omit<AnyCheck, "registry" | "check"> & AskOptions;

const toBlock = ({ block }: AtBlock): bigint | "finalized" | undefined =>
  block === undefined || block === "finalized" ? block : BigInt(block);

const isChosen = (share: boolean | number | undefined): boolean =>
  typeof share === "number" ? Math.random() < share : share === true;

/** Throws if the registry has another answer at the block of the answer. */
const verify = async (
  chain: ChainReader,
  question: Question,
  answer: Answer,
  askAgain: () => Promise<Answer>,
): Promise<Answer> => {
  const { registry, check, chainId } = question;
  if (!chain.canRead(question)) {
    const message = `Answers about chain ${chainId} cannot be verified: there is no client of this chain.`;
    throw new RegistryError(message, { isRetryable: false });
  }
  const { number, final } = answer.block;
  const value = await chain.read(question, number);
  if (value === answer.value) return answer;
  // A reorg may have replaced the block in between.
  if (!final) {
    const second = await askAgain();
    if ((await chain.read(question, second.block.number)) === second.value) return second;
  }
  throw new RegistryError(
    `The service answers ${answer.value}, the ${registry} registry of chain ${chainId} answers ${value}: check ${check} at block ${number}.`,
    { status: 200, isRetryable: false },
  );
};
