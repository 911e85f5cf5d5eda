import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Address } from "viem";
import { generateKey, hashKey, prefixOf } from "../api/keys/api-key.ts";
import { CHECKS, type Check } from "../registry/check-rule.ts";
import type { RegistryVersion } from "../registry/networks.ts";
import { startNode } from "../stack/child.ts";
import { isUp } from "../stack/is-up.ts";
import { findFreePort } from "../stack/ports.ts";
import { collectors, delegationOf, ordinaryDelegations } from "./data-set.ts";
import { logFile } from "./database.ts";
import { startPonderApi } from "./ponder-api.ts";
import type { Subject } from "./rounds.ts";

const API = join(import.meta.dirname, "../api/main.ts");
const MEMORY_API = join(import.meta.dirname, "memory-api.ts");
const BASELINES = join(import.meta.dirname, "baselines.ts");
/** Drawn before they are asked, so that drawing them does not count. */
const QUESTIONS = 20_000;
const LONGEST_START_MS = 60_000;
/** v1 has no keys: a limit that is counted like any other, and never reached. */
export const OUT_OF_REACH = { RATE_LIMIT_REQUESTS: "1000000", RATE_LIMIT_WINDOW_SECONDS: "1" };

/** A process that answers over HTTP. */
export type Server = { pid: number; port: number };

/** Every kind of check. */
export const ALL_CHECKS: readonly { version: RegistryVersion; check: Check }[] = (["v1", "v2"] as const).flatMap(
  (version) => CHECKS[version].map((check) => ({ version, check })),
);

type Delegation = ReturnType<typeof delegationOf>;

/** Starts what is measured over a data set, and ends it. */
export class Stage {
  readonly #stops: (() => Promise<void>)[] = [];

  /** The service as people run it: with everything that it does by default. */
  startApi(databaseUrl: string, settings: Record<string, string> = {}): Promise<Server> {
    return this.#startApi(API, databaseUrl, settings);
  }

  /** The same, but for asking the database about checks. */
  startMemoryApi(databaseUrl: string, settings: Record<string, string> = {}): Promise<Server> {
    return this.#startApi(MEMORY_API, databaseUrl, settings);
  }

  async #startApi(script: string, databaseUrl: string, settings: Record<string, string>): Promise<Server> {
    const port = await findFreePort();
    const child = startNode(script, [], {
      output: logFile(`api-${port}`),
      env: {
        ...process.env,
        DATABASE_URL: databaseUrl,
        HOST: "127.0.0.1",
        PORT: String(port),
        METRICS_PORT: String(await findFreePort()),
        // The chain of a data set stands still.
        MAX_INDEX_LAG_SECONDS: "1000000000",
        ...settings,
      },
    });
    this.#stops.push(child.stop);
    await untilUp(`http://127.0.0.1:${port}/ready`);
    return { pid: child.pid, port };
  }

  /** Plain Hono routes. */
  async startBaselines(databaseUrl: string): Promise<Server> {
    const port = await findFreePort();
    const schema = await schemaOf(databaseUrl);
    const args = ["--port", String(port), "--database-url", databaseUrl, "--schema", schema];
    const child = startNode(BASELINES, args, { output: logFile(`baselines-${port}`), env: process.env });
    this.#stops.push(child.stop);
    await untilUp(`http://127.0.0.1:${port}/bare`);
    return { pid: child.pid, port };
  }

  /** Ponder's own API functions. */
  async startPonder(databaseUrl: string): Promise<Server> {
    const port = await findFreePort();
    const { pid, stop } = await startPonderApi({ databaseUrl, schema: await schemaOf(databaseUrl), port });
    this.#stops.push(stop);
    return { pid, port };
  }

  async end(): Promise<void> {
    for (const stop of this.#stops) await stop();
  }
}

const untilUp = async (url: string): Promise<void> => {
  const deadline = Date.now() + LONGEST_START_MS;
  while (!(await isUp(url))) {
    if (Date.now() > deadline) throw new Error(`${url} does not answer.`);
    await sleep(50);
  }
};

const queryOnce = async (databaseUrl: string, text: string, values: string[] = []) => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const { rows } = await client.query(text, values);
  await client.end();
  return rows;
};

const schemaOf = async (databaseUrl: string): Promise<string> =>
  (await queryOnce(databaseUrl, "select schema from indexer.shard"))[0].schema;

/** A key for the service over a data set. */
export const createKey = async (databaseUrl: string): Promise<string> => {
  const key = generateKey();
  const text = "insert into service.api_key (name, prefix, hash) values ('bench', $1, $2)";
  await queryOnce(databaseUrl, text, [prefixOf(key), hashKey(key)]);
  return key;
};

/** A GET in full. */
const getRequest = (path: string, headers: Readonly<Record<string, string>> = {}): string => {
  const lines = Object.entries({ Host: "bench", ...headers }).map(([name, value]) => `${name}: ${value}`);
  return `GET ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
};

/** Requests about delegations that are drawn at random. */
const draw = (size: number, path: (delegation: Delegation) => string, headers: Record<string, string> = {}) =>
  Array.from({ length: QUESTIONS }, () => {
    const number = Math.floor(Math.random() * ordinaryDelegations(size));
    return getRequest(path(delegationOf(number)), headers);
  });

const scope = (check: Check, { contract, tokenId }: Delegation): string => {
  if (check === "all") return "";
  const hasTokenId = check === "token" || check === "erc721" || check === "erc1155";
  return `&contract=${contract}${hasTokenId ? `&tokenId=${tokenId}` : ""}`;
};

/** The checks of a service, by a client with a key; or without one. */
export const checkOf = (
  { pid, port }: Server,
  { version, check }: { version: RegistryVersion; check: Check },
  size: number,
  key?: string,
): Subject => ({
  name: `${version} check/${check}`,
  pids: [pid],
  ports: [port],
  requests: draw(
    size,
    (delegation) =>
      `/registry/${version}/check/${check}?delegate=${delegation.delegate}&vault=${delegation.vault}${scope(check, delegation)}`,
    key ? { "X-API-KEY": key } : {},
  ),
});

export const ponderCheckOf = (
  { pid, port }: Server,
  { version, check }: { version: RegistryVersion; check: Check },
  size: number,
): Subject => ({
  name: `Ponder, ${version} ${check}`,
  pids: [pid],
  ports: [port],
  requests: draw(
    size,
    (delegation) =>
      `/check/${version}/${check}?to=${delegation.delegate}&from=${delegation.vault}${scope(check, delegation)}`,
  ),
});

/** One statement for each request: a check of an entire wallet by primary key. */
export const queryOf = ({ pid, port }: Server, size: number): Subject => ({
  name: "a query for each request",
  pids: [pid],
  ports: [port],
  requests: draw(size, ({ delegate, vault }) => `/query?to=${delegate}&from=${vault}`),
});

/** No database at all. */
export const bareOf = ({ pid, port }: Server): Subject => ({
  name: "a bare route",
  pids: [pid],
  ports: [port],
  requests: [getRequest("/bare")],
});

/** Lists of wallets with three delegations. */
export const shortListOf = ({ pid, port }: Server, size: number, key: string): Subject => ({
  name: "list of 3",
  pids: [pid],
  ports: [port],
  requests: draw(size, ({ vault }) => `/registry/v2/${vault}`, { "X-API-KEY": key }),
});

/** Lists of wallets with a thousand. */
export const longListOf = (
  { pid, port }: Server,
  size: number,
  path: (wallet: Address) => string,
  headers: Record<string, string> = {},
): Subject => ({
  name: "list of 1,000",
  pids: [pid],
  ports: [port],
  requests: collectors(size).map((wallet) => getRequest(path(wallet), headers)),
});
