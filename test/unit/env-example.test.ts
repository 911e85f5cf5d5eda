import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { API_VARIABLES, parseApiSettings } from "../../api/settings.ts";
import { parseRolesSettings, ROLES_VARIABLES } from "../../commands/roles/settings.ts";
import { INDEXER_VARIABLES, parseIndexerSettings } from "../../indexer/settings.ts";
import { ROOT } from "../support/run.ts";

/** Variables of .env.example: set, or commented out with their defaults. */
const example = readFileSync(join(ROOT, ".env.example"), "utf8")
  .split("\n")
  .flatMap((line) => {
    const [, comment, name, value] = /^(# )?([A-Z][A-Z0-9_]*)=(.*)$/.exec(line) ?? [];
    return name === undefined || value === undefined ? [] : { name, value, isSet: comment === undefined };
  });

/** Variables of docker-compose.yml with their defaults there. */
const inCompose = new Map(
  [...readFileSync(join(ROOT, "docker-compose.yml"), "utf8").matchAll(/\$\{([A-Z_]+):?-([^}]*)\}/g)].map(
    ([, name = "", value = ""]) => [name, value],
  ),
);

/** Variables of the sandbox, which come from the environment only. */
const SANDBOX = ["SANDBOX_PORT", "SANDBOX_DATA"];

/** Prefixes of variables that end with a chain id. */
const PREFIXES = [...INDEXER_VARIABLES, ...API_VARIABLES].filter((name) => name.endsWith("_"));
const withoutChain = (name: string) => PREFIXES.find((prefix) => name.startsWith(prefix)) ?? name;

test(".env.example lists exactly the settings of indexer, API, roles, containers and sandbox", () => {
  const known = new Set([
    ...INDEXER_VARIABLES,
    ...API_VARIABLES,
    ...ROLES_VARIABLES,
    ...inCompose.keys(),
    "DATABASE_URL",
    ...SANDBOX,
  ]);
  const listed = new Set(example.map(({ name }) => withoutChain(name)));
  expect([...listed].sort()).toEqual([...known].sort());
});

test(".env.example shows the default of every setting that has one", () => {
  const defaults = Object.fromEntries(example.flatMap(({ name, value }) => (value ? [[name, value]] : [])));
  const RPC = { PONDER_RPC_URL_1: "https://rpc.example" };
  expect(parseApiSettings(defaults)).toEqual(parseApiSettings({}));
  expect(parseIndexerSettings({ ...RPC, ...defaults })).toEqual(parseIndexerSettings(RPC));
  const PASSWORDS = Object.fromEntries(["INDEXER", "API", "ANALYST"].map((of) => [`${of}_PASSWORD`, "x".repeat(12)]));
  expect(parseRolesSettings({ ...PASSWORDS, ...defaults })).toEqual(parseRolesSettings(PASSWORDS));

  const open = example.filter(({ value }) => !value).map(({ name }) => withoutChain(name));
  expect([...new Set(open)].sort()).toEqual(
    [
      ...PREFIXES,
      "CHAINS",
      "DATABASE_URL",
      "DATABASE_READ_URL",
      "PUBLIC_URL",
      "QUIET_CHAINS",
      "WEBHOOK_ALLOWED_NETWORKS",
      ...Object.keys(PASSWORDS),
      "POSTGRES_PASSWORD",
      "GRAFANA_PASSWORD",
      "BUILD_VERSION",
      "BUILD_COMMIT",
      "BUILD_TIME",
    ].sort(),
  );
  for (const [name, value] of inCompose) {
    const { isSet, value: shown } = example.find((variable) => variable.name === name) ?? {};
    // An empty default leaves it to the process. A value that is set here replaces the sandbox's default.
    if (!isSet && value !== "" && name !== "TRUST_PROXY") expect(shown, name).toBe(value);
  }
});

test(".env.example sets only what distinguishes real networks from the sandbox, without secrets", () => {
  const set = Object.fromEntries(example.flatMap(({ name, value, isSet }) => (isSet ? [[name, value]] : [])));
  expect(set).toEqual({
    PONDER_RPC_URL_1: "",
    INDEXER_PASSWORD: "",
    API_PASSWORD: "",
    ANALYST_PASSWORD: "",
    POSTGRES_PASSWORD: "",
    POSTGRES_CLUSTER: "live",
    INDEXER_ENV_FILE: ".env.indexer",
  });
});
