import type { Address } from "viem";
import { type Check, type CheckName, findCheck, takes } from "../registry/checks.ts";
import type { RegistryVersion } from "../registry/networks.ts";
import { busyDelegation, listCollectors, makeDelegation, NEWEST_BLOCK, ordinaryDelegations } from "./data-set.ts";
import type { Subject } from "./rounds.ts";
import type { Server } from "./servers.ts";

// Subjects of a measurement: a server and the requests to send to it.

/** Requests per subject. They are prepared before the measurement, which must not include it. */
const REQUESTS = 20_000;

type Delegation = ReturnType<typeof makeDelegation>;
type Headers = Readonly<Record<string, string>>;

const createSubject = (name: string, { pid, port }: Server, requests: readonly string[]): Subject => ({
  name,
  pids: [pid],
  ports: [port],
  requests,
});

/** Writes a GET request as HTTP text. */
const getRequest = (path: string, headers: Headers = {}): string => {
  const lines = Object.entries({ Host: "bench", ...headers }).map(([name, value]) => `${name}: ${value}`);
  return `GET ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
};

/** Writes a POST request with a JSON body as HTTP text. */
const postRequest = (path: string, body: string, headers: Headers): string => {
  const all = { Host: "bench", "Content-Type": "application/json", "Content-Length": String(body.length), ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body}`;
};

/** Writes requests about random delegations. */
const randomRequests = (size: number, path: (delegation: Delegation) => string, headers: Headers = {}) =>
  Array.from({ length: REQUESTS }, () => {
    const number = Math.floor(Math.random() * ordinaryDelegations(size));
    return getRequest(path(makeDelegation(number)), headers);
  });

export const getCheck = (version: RegistryVersion, name: CheckName): Check => {
  const check = findCheck(version, name);
  if (!check) throw new Error(`${version} has no check ${name}.`);
  return check;
};

const scopeParameters = (check: Check, delegation: Delegation): string =>
  (["contract", "tokenId"] as const).map((name) => (takes(check, name) ? `&${name}=${delegation[name]}` : "")).join("");

const checkPath = (check: Check, delegation: Delegation): string => {
  const { delegate, vault } = delegation;
  return `${check.path}?delegate=${delegate}&vault=${vault}${scopeParameters(check, delegation)}`;
};

/** Checks of the service, with a key or without one. */
export const checkSubject = (server: Server, check: Check, size: number, key?: string): Subject => {
  const path = (delegation: Delegation) => checkPath(check, delegation);
  return createSubject(
    `${check.version} check/${check.name}`,
    server,
    randomRequests(size, path, key ? { "X-API-KEY": key } : {}),
  );
};

/** The same checks at a past block. @param isBusy - of a vault with 100,000 changes */
export const pastCheckSubject = (server: Server, check: Check, size: number, key: string, isBusy = false) => {
  const path = (random: Delegation) => {
    const delegation = isBusy ? busyDelegation(random.tokenId) : random;
    const block = NEWEST_BLOCK - 1 - (random.tokenId % 1000);
    return `${checkPath(check, delegation)}&block=${block}`;
  };
  const name = `${check.version} check/${check.name} at a past block${isBusy ? ", busy vault" : ""}`;
  return createSubject(name, server, randomRequests(size, path, { "X-API-KEY": key }));
};

/** Checks in a body. */
export const BULK_SIZE = 1_000;
const BODIES = 20;

/** Bodies with 1,000 checks of an entire wallet. */
export const bulkSubject = (server: Server, size: number, key: string): Subject => {
  const bodies = Array.from({ length: BODIES }, () => {
    const checks = Array.from({ length: BULK_SIZE }, () => {
      const { delegate, vault } = makeDelegation(Math.floor(Math.random() * ordinaryDelegations(size)));
      return { registry: "v2", check: "all", to: delegate, from: vault };
    });
    return postRequest("/registry/checks", JSON.stringify({ checks }), { "X-API-KEY": key });
  });
  return createSubject("1,000 checks in a body", server, bodies);
};

export const ponderCheckSubject = (server: Server, check: Check, size: number): Subject => {
  const path = (delegation: Delegation) =>
    `/check/${check.version}/${check.name}?to=${delegation.delegate}&from=${delegation.vault}${scopeParameters(check, delegation)}`;
  return createSubject(`Ponder, ${check.version} ${check.name}`, server, randomRequests(size, path));
};

/** One statement per request: a check of an entire wallet by primary key. */
export const querySubject = (server: Server, size: number): Subject =>
  createSubject(
    "a query for each request",
    server,
    randomRequests(size, ({ delegate, vault }) => `/query?to=${delegate}&from=${vault}`),
  );

/** A route without a database. */
export const bareSubject = (server: Server): Subject => createSubject("a bare route", server, [getRequest("/bare")]);

/** Lists of wallets with 3 delegations. */
export const shortListSubject = (server: Server, size: number, key: string): Subject =>
  createSubject(
    "list of 3",
    server,
    randomRequests(size, ({ vault }) => `/registry/v2/${vault}`, { "X-API-KEY": key }),
  );

/** Lists of wallets with 1,000 delegations. */
export const longListSubject = (
  server: Server,
  size: number,
  path: (wallet: Address) => string,
  headers: Headers = {},
): Subject =>
  createSubject(
    "list of 1,000",
    server,
    listCollectors(size).map((wallet) => getRequest(path(wallet), headers)),
  );
