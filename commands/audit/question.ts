import { CHECKS, type Check } from "../../registry/check-rule.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { type DelegationKey, describeDelegation } from "./delegation.ts";

/** A check to compare, with the parameters of a delegation. */
export type Question = { check: Check; about: DelegationKey };

export const questionsAbout = (delegations: readonly DelegationKey[]): Question[] =>
  delegations.flatMap((about) => CHECKS[about.registry].map((check) => ({ check, about })));

export const describeQuestion = ({ check, about }: Question): string => {
  const types: Record<Check, DelegationKey["type"]> = {
    all: "ALL",
    contract: "CONTRACT",
    token: "TOKEN",
    erc721: "ERC721",
    erc20: "ERC20",
    erc1155: "ERC1155",
  };
  return `check of ${describeDelegation({ ...about, type: types[check] })}`;
};

/** Every kind of check. */
export const CHECK_KINDS = (["v1", "v2"] as const).flatMap((registry: RegistryVersion) =>
  CHECKS[registry].map((check: Check) => ({ registry, check })),
);
