import { type Check, checksOf } from "../../registry/checks.ts";
import { type DelegationKey, describeDelegation } from "./delegation.ts";

/** A check to compare, with the parameters of a delegation. */
export type Question = { check: Check; about: DelegationKey };

export const questionsAbout = (delegations: readonly DelegationKey[]): Question[] =>
  delegations.flatMap((about) => checksOf(about.registry).map((check) => ({ check, about })));

export const describeQuestion = ({ check, about }: Question): string =>
  `check of ${describeDelegation({ ...about, type: check.satisfiedBy.at(-1) ?? about.type })}`;
