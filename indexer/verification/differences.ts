import { hasAmount } from "../../registry/delegation.ts";
import { type Delegation, type DelegationKey, describeDelegation } from "./delegation.ts";
import { describeQuestion, type Question } from "./question.ts";

/** Collects the differences between index and chain, each once. */
export class Differences {
  readonly #lines = new Map<string, string>();
  /** Wallets between which a delegation differs. */
  readonly #pairs = new Set<string>();

  get lines(): string[] {
    return [...this.#lines.values()];
  }

  get size(): number {
    return this.#lines.size;
  }

  addLists(index: readonly Delegation[], chain: readonly Delegation[]): void {
    const indexed = new Map(index.map((delegation) => [describeDelegation(delegation), delegation]));
    const onChain = new Map(chain.map((delegation) => [describeDelegation(delegation), delegation]));
    for (const [name, delegation] of new Map([...indexed, ...onChain])) {
      const [ours, theirs] = [describeState(indexed.get(name)), describeState(onChain.get(name))];
      if (ours === theirs) continue;
      this.#lines.set(name, `${name}: the index says ${ours}, the chain says ${theirs}`);
      this.#pairs.add(pairOf(delegation));
    }
  }

  /** Ignores a check between wallets whose delegations already differ. */
  addCheck(question: Question, index: string, chain: string): void {
    if (index === chain || this.#pairs.has(pairOf(question.about))) return;
    const name = describeQuestion(question);
    this.#lines.set(name, `${name}: the index says ${index}, the chain says ${chain}`);
  }
}

const describeState = (delegation: Delegation | undefined): string => {
  if (!delegation) return "not delegated";
  return hasAmount(delegation.type) ? `amount ${delegation.amount}` : "delegated";
};

const pairOf = ({ registry, vault, delegate }: DelegationKey) => `${registry} ${vault} ${delegate}`;
