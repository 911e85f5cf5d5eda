import type { Address, Hex } from "viem";
import { type Check, type CheckName, takes } from "../../registry/checks.ts";
import { FULL_RIGHTS, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import type { ApiContext } from "../context.ts";
import { defineParameters, type Shape } from "../contract/define-parameters.ts";
import {
  type AskedBlock,
  chainId,
  coldWallet,
  contractWithExample,
  hotWallet,
  rights,
  SAMPLES,
  tokenIdWithExample,
} from "../contract/parameters.ts";
import type { Shards } from "../shards/shards.ts";
import type { CheckQuestion } from "./check-delegation.ts";

/** Parameters that a check's example asks about, and its answer: with the sandbox's sample delegations, a true one. */
type Example = { delegate: Address; contract: Address; tokenId: string; answer: boolean | number };

const EXAMPLE: Example = { delegate: SAMPLES.hot, contract: SAMPLES.nft, tokenId: "8520", answer: true };
// The guest has delegations of amounts: a delegate of the entire wallet would get 2^256-1 every time.
const BALANCE_EXAMPLES: Partial<Record<CheckName, Partial<Example>>> = {
  erc20: { delegate: SAMPLES.guest, contract: SAMPLES.coin, answer: 250000 },
  erc1155: { delegate: SAMPLES.guest, tokenId: "7", answer: 5 },
};

export const exampleOf = ({ name }: Check): Example => ({ ...EXAMPLE, ...BALANCE_EXAMPLES[name] });

const SYNONYMS = { delegate: "to", to: "delegate", vault: "from", from: "vault" } as const;

type Values = AskedBlock & { chainId: number; contract?: Address; tokenId?: string; rights?: Hex } & {
  [name in "delegate" | "vault" | "to" | "from"]?: Address;
};

type Options = Pick<Parameters<typeof defineParameters>[0], "useInstead"> & {
  /** Names of the hot and the cold wallet. */
  wallets?: Check["wallets"];
  /** Parameters of the request besides the check's own. */
  query?: Shape;
  validate: ReturnType<Shards["validateChain"]>;
};

/** Defines the parameters of a check: of an operation, or of an item in a body. */
export const defineCheck = (check: Check, { wallets = check.wallets, query, ...rules }: Options) => {
  const [hot, cold] = wallets;
  const synonyms = check.version === "v2" ? SYNONYMS : undefined;
  const example = exampleOf(check);
  const parameters = defineParameters({
    query: {
      [hot]: hotWallet(synonyms?.[hot], example.delegate),
      [cold]: coldWallet(synonyms?.[cold]),
      ...(takes(check, "contract") && { contract: contractWithExample(example.contract) }),
      ...(takes(check, "tokenId") && { tokenId: tokenIdWithExample(example.tokenId) }),
      ...(takes(check, "rights") && { rights }),
      chainId,
      ...query,
    },
    ...(synonyms && { synonyms }),
    ...rules,
  });
  const toQuestion = (values: Values): CheckQuestion => {
    const { chainId, contract = NO_CONTRACT, tokenId = `${NO_TOKEN}`, rights = FULL_RIGHTS } = values;
    const { [hot]: delegate, [cold]: vault } = values;
    if (!delegate || !vault) throw new Error(`The wallets of check ${check.name} are required.`);
    return { check, chainId, vault, delegate, contract, tokenId, rights };
  };
  return {
    request: parameters.request,
    /** Reads a request: the question, and the other parameters. */
    read: (c: ApiContext) => {
      const values = parameters.read(c) as Values & { numbers?: "number" | "string" };
      return { question: toQuestion(values), values };
    },
    /** Reads texts from elsewhere. @param textsOf - returns the texts of a parameter */
    readTexts: (textsOf: (name: string) => readonly string[]) => toQuestion(parameters.readTexts(textsOf) as Values),
  };
};
