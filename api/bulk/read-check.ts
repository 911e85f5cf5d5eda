import { CHECKS, type Check } from "../../registry/check-rule.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { badParameters, defineParameters } from "../contract/define-parameters.ts";
import { chainId, coldWallet, hotWallet, rights, SCOPES } from "../contract/parameters.ts";
import type { CheckValues } from "../delegations/check-delegation.ts";
import type { ParameterError } from "../problem.ts";
import type { Shards } from "../shards/shards.ts";

export type ReadCheck = (item: unknown) => { version: RegistryVersion; check: Check; values: CheckValues };

/** Creates a reader of one check. It throws a Problem that names its bad fields. */
export const createCheckReader = (shards: Shards): ReadCheck => {
  const wallets = { delegate: hotWallet("to"), vault: coldWallet("from") };
  const defineCheck = (version: RegistryVersion, check: Check) =>
    defineParameters({
      query: { ...wallets, ...SCOPES[check], ...(version === "v2" && { rights }), chainId },
      // v1 has one name for each wallet.
      synonyms: version === "v2" ? { delegate: "to", vault: "from" } : {},
      useInstead: "use block or minBlock beside checks",
      validate: shards.validateChain(version),
    });
  const definitions = new Map(
    (["v1", "v2"] as const).flatMap((version) =>
      CHECKS[version].map((check) => [`${version} ${check}`, { version, check, ...defineCheck(version, check) }]),
    ),
  );

  return (item) => {
    const fields = readFields(item);
    const { registry, check: asked, id } = fields;
    const isNamed = typeof registry === "string" && typeof asked === "string";
    const definition = isNamed ? definitions.get(`${registry} ${asked}`) : undefined;
    if (!definition) throw badParameters(explainKind(fields));
    if (id !== undefined && id !== null && !isId(id)) {
      throw badParameters([{ parameter: "id", message: "must be a string, or an integer up to 2^53" }]);
    }
    const { version, check } = definition;
    const values = definition.readTexts((name) => textsOf(name, fields[name])) as CheckValues;
    return { version, check, values };
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
    return [{ parameter: "check", message: `must be one of ${CHECKS[registry].join(", ")}, on ${registry}` }];
  }
  const known = new Set<unknown>(Object.values(CHECKS).flat());
  const errors = [{ parameter: "registry", message: "must be v1 or v2" }];
  return known.has(check)
    ? errors
    : [...errors, { parameter: "check", message: `must be one of ${[...known].join(", ")}` }];
};
