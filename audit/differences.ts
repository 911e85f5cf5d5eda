import { hasAmount } from "../registry/delegation.ts";
import { type Delegation, type DelegationKey, describeDelegation } from "./delegation.ts";
import { describeQuestion, type Question } from "./question.ts";

/** Where index and chain do not say the same, each once, however often it is met. */
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
    const real = new Map(chain.map((delegation) => [describeDelegation(delegation), delegation]));
    for (const [name, delegation] of new Map([...indexed, ...real])) {
      const [said, is] = [stateOf(indexed.get(name)), stateOf(real.get(name))];
      if (said === is) continue;
      this.#lines.set(name, `${name}: the index says ${said}, the chain says ${is}`);
      this.#pairs.add(pairOf(delegation));
    }
  }

  /** One that follows from a delegation that differs is not told of. */
  addCheck(question: Question, index: string, chain: string): void {
    if (index === chain || this.#pairs.has(pairOf(question.about))) return;
    const name = describeQuestion(question);
    this.#lines.set(name, `${name}: the index says ${index}, the chain says ${chain}`);
  }
}

const stateOf = (delegation: Delegation | undefined): string => {
  if (!delegation) return "not delegated";
  return hasAmount(delegation.type) ? `amount ${delegation.amount}` : "delegated";
};

const pairOf = ({ registry, vault, delegate }: DelegationKey) => `${registry} ${vault} ${delegate}`;
