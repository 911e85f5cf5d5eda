import { CHECK_NAMES, CHECKS, type Check, checksOf, isBalanceCheck } from "../../registry/checks.ts";

/** Renders client/src/checks.ts: the client depends on no other folder, so the checks are written into it. */
export const renderClientChecks = (): string => `// Written by \`npm run openapi\` from registry/checks.ts.

/** The parameters of each check besides the wallets, and its answer. */
export type Checks = {
  ${renderByVersion(({ takes, returns }) => {
    const names = takes.map((name) => JSON.stringify(name)).join(" | ") || "never";
    return `{ takes: ${names}; answer: ${returns === "balance" ? "bigint" : "boolean"} }`;
  })}
};

export const NAMES = {
  v1: ${renderNames(checksOf("v1"))},
  v2: ${renderNames(checksOf("v2"))},
} as const;

/** Checks that return a balance. */
export const BALANCES: readonly string[] = ${JSON.stringify(CHECK_NAMES.filter(isBalanceCheck))};

/** The registries' own functions. */
export const FUNCTIONS: Record<keyof Checks, Record<string, string>> = {
  ${renderByVersion(({ contractFunction }) => JSON.stringify(contractFunction))}
};

/** Types of the delegations that satisfy each check, the broadest first. */
export const SATISFIED_BY: Record<keyof Checks, Record<string, readonly string[]>> = {
  ${renderByVersion(({ satisfiedBy }) => JSON.stringify(satisfiedBy))}
};
`;

const renderNames = (checks: readonly Check[]): string => JSON.stringify(checks.map(({ name }) => name));

const renderByVersion = (render: (check: Check) => string): string =>
  [...new Set(CHECKS.map(({ version }) => version))]
    .map((version) => `${version}: {${checksOf(version).map((check) => `${check.name}: ${render(check)}`)}},`)
    .join("\n");
