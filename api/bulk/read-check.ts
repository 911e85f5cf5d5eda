import { CHECK_NAMES, CHECKS, checksOf, findCheck } from "../../registry/checks.ts";
import { badParameters } from "../contract/define-parameters.ts";
import type { CheckQuestion } from "../delegations/check-delegation.ts";
import { defineCheck } from "../delegations/check-routes.ts";
import type { ParameterError } from "../problem.ts";
import type { Shards } from "../shards/shards.ts";

/** Reads one check of a body. Throws a Problem that names its bad fields. */
export type ReadCheck = (item: unknown) => CheckQuestion;

export const createCheckReader = (shards: Shards): ReadCheck => {
  const readers = new Map(
    CHECKS.map((check) => {
      const { readTexts } = defineCheck(check, {
        wallets: ["delegate", "vault"],
        useInstead: "use block or minBlock beside checks",
        validate: shards.validateChain(check.version),
      });
      return [check, readTexts];
    }),
  );

  return (item) => {
    const fields = readFields(item);
    const { registry, check: name, id } = fields;
    const check = typeof registry === "string" && typeof name === "string" ? findCheck(registry, name) : undefined;
    const readTexts = check && readers.get(check);
    if (!readTexts) throw badParameters(explainKind(fields));
    if (id !== undefined && id !== null && !isId(id)) {
      throw badParameters([{ parameter: "id", message: "must be a string, or an integer up to 2^53" }]);
    }
    return readTexts((name) => textsOf(name, fields[name]));
  };
};

const readFields = (item: unknown): Record<string, unknown> => {
  if (typeof item === "object" && item !== null && !Array.isArray(item)) return item as Record<string, unknown>;
  throw badParameters([{ parameter: "checks", message: "must be objects" }]);
};

/** A larger number may have been rounded by JSON.parse(). */
export const isId = (value: unknown): value is string | number =>
  typeof value === "string" || Number.isSafeInteger(value);

/** A rounded number would be another token. */
const textsOf = (parameter: string, value: unknown): readonly string[] => {
  if (value === undefined || value === null) return [];
  if (typeof value === "string") return [value];
  if (Number.isSafeInteger(value)) return [String(value)];
  const message = Number.isInteger(value) ? "must be a string above 2^53: it is rounded" : "must be a string";
  throw badParameters([{ parameter, message }]);
};

const explainKind = ({ registry, check }: Record<string, unknown>): ParameterError[] => {
  if (registry === "v1" || registry === "v2") {
    const names = checksOf(registry).map(({ name }) => name);
    return [{ parameter: "check", message: `must be one of ${names.join(", ")}, on ${registry}` }];
  }
  const errors = [{ parameter: "registry", message: "must be v1 or v2" }];
  return (CHECK_NAMES as readonly unknown[]).includes(check)
    ? errors
    : [...errors, { parameter: "check", message: `must be one of ${CHECK_NAMES.join(", ")}` }];
};
