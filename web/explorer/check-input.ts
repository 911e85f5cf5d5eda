import { type Check, takes } from "../../registry/checks.ts";
import { chooseCheck, type RegistryName } from "./checks.ts";
import { describeBadAddress, isAddress } from "./search-form.tsx";

/** A check with its parameters, as entered. */
export type CheckInput = {
  registry: RegistryName;
  check: Check;
  from: string;
  to: string;
  contract: string;
  tokenId: string;
  rights: string;
};

export const FIELD_NAMES = ["to", "from", "contract", "tokenId", "rights"] as const;
export type FieldName = (typeof FIELD_NAMES)[number];

export const readCheckInput = (query: URLSearchParams): CheckInput => {
  const registry = query.get("registry") === "v1" ? "v1" : "v2";
  const value = (name: FieldName) => query.get(name)?.trim() ?? "";
  return {
    registry,
    check: chooseCheck(registry, query.get("type")),
    from: value("from"),
    to: value("to"),
    contract: value("contract"),
    tokenId: value("tokenId"),
    rights: value("rights"),
  };
};

/** Builds the query parameters of a check. Fields of other checks are empty. */
export const buildParameters = ({ registry, check, from, to, contract, tokenId, rights }: CheckInput) => ({
  registry,
  type: check.name,
  to,
  from,
  contract: takes(check, "contract") ? contract : "",
  tokenId: takes(check, "tokenId") ? tokenId : "",
  rights: takes(check, "rights") ? rights : "",
});

/** Finds invalid fields, each with its error message. */
export const findFieldErrors = ({ check, ...values }: CheckInput): Partial<Record<FieldName, string>> => {
  const errors: Partial<Record<FieldName, string>> = {};
  for (const name of ["to", "from", ...check.takes.filter((name) => name === "contract")] as const) {
    if (!isAddress(values[name])) errors[name] = describeBadAddress(values[name]);
  }
  if (takes(check, "tokenId") && !/^(\d+|0x[0-9a-f]+)$/i.test(values.tokenId)) {
    errors.tokenId = "A token id is a whole number, in decimal or as 0x and hex digits.";
  }
  if (takes(check, "rights") && !isRights(values.rights)) {
    errors.rights = "A right is a text of at most 31 bytes, or 0x and 64 hex digits.";
  }
  return errors;
};

const isRights = (text: string): boolean =>
  /^0x/i.test(text) ? /^0x([0-9a-f]{64})?$/i.test(text) : new TextEncoder().encode(text).length <= 31;
