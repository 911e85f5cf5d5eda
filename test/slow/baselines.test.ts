import type pg from "pg";
import { type Address, getAddress, type Hex, zeroHash } from "viem";
import { expect, inject, onTestFinished, test } from "vitest";
import { createDataSets } from "../../bench/data-set.ts";
import { createKey, Servers } from "../../bench/servers.ts";
import { CHECKS, checksOf } from "../../registry/checks.ts";
import {
  AIRDROP,
  createSampleDatabase,
  FRESH_FOR_A_DAY,
  GUEST,
  OTHER,
  startTestApi,
  UNLIMITED,
} from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { type Random, seededRandom } from "../support/random.ts";
import { connectClient } from "../support/setup.ts";

const DELEGATIONS = 25_000;
const QUESTIONS = 100;

test("the benchmark's baselines give the service's answers and leave the index unchanged", async () => {
  const random = seededRandom(import.meta.filename);
  const dataSets = await createDataSets(inject("postgresUrl"), [DELEGATIONS], () => {});
  const databaseUrl = dataSets.get(DELEGATIONS) ?? "";
  const database = await connectClient(databaseUrl);
  const schema = await readServedSchema(database);
  const readMeta = async () => (await database.query(`select * from "${schema}"._ponder_meta`)).rows;
  const metaBefore = await readMeta();

  const service = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const servers = new Servers();
  onTestFinished(() => servers.stop());
  const [ponder, baselines] = await Promise.all([
    servers.startPonder(databaseUrl),
    servers.startBaselines(databaseUrl),
  ]);

  const seen = new Set<string>();
  for (const version of ["v1", "v2"] as const) {
    const rowsByType = await readRows(database, schema, version, random);
    for (const { name, path: operation } of checksOf(version)) {
      for (let count = 0; count < QUESTIONS; count++) {
        const { to, from, ...rest } = drawCheck(rowsByType, random);
        const query = new URLSearchParams({ to, from, ...rest });
        const asked = version === "v1" ? `delegate=${to}&vault=${from}&${new URLSearchParams(rest)}` : query;
        const path = `${operation}?${asked}&numbers=string`;
        const expected = await fetchText(`${service.url}${path}`);
        expect(await fetchText(`http://127.0.0.1:${ponder.port}/check/${version}/${name}?${query}`), path).toBe(
          expected,
        );
        seen.add(`${version} ${name} ${/^"[1-9]\d{0,76}"$/.test(expected) ? "amount" : expected}`);

        if (version === "v2" && name === "all" && rest.rights === zeroHash) {
          expect(await fetchText(`http://127.0.0.1:${baselines.port}/query?to=${to}&from=${from}`), path).toBe(
            expected,
          );
        }
      }
    }
  }
  // Each check gave both answers, and balances gave amounts.
  for (const { version, name, returns } of CHECKS) {
    for (const answer of returns === "balance" ? ['"0"', "amount"] : ["true", "false"]) {
      expect(seen).toContain(`${version} ${name} ${answer}`);
    }
  }

  const { rows: wallets } = await database.query(
    `(select distinct vault as wallet from "${schema}".delegation_v2 order by 1 limit 40)
     union (select distinct delegate from "${schema}".delegation_v2 order by 1 limit 40)
     union (select vault from "${schema}".delegation_v2 where chain_id = 1 group by vault having count(*) > 900)`,
  );
  expect(wallets.length).toBeGreaterThan(60);
  for (const { wallet } of wallets) {
    const expected = await fetchText(`${service.url}/registry/v2/${wallet}?numbers=string`);
    expect(await fetchText(`http://127.0.0.1:${baselines.port}/list-drizzle/${wallet}`), wallet).toBe(expected);
  }

  expect(await readMeta()).toEqual(metaBefore);
});

test("the service from memory answers every check without the database, concurrent ones in one batch", async () => {
  const databaseUrl = await createSampleDatabase();
  const servers = new Servers();
  onTestFinished(() => servers.stop());
  const { port, metricsPort } = await servers.startMemoryApi(databaseUrl, UNLIMITED);
  const key = await createKey(databaseUrl);
  for (const check of CHECKS) {
    // The database's own answer is false, or 0.
    const path = `${check.path}?delegate=${OTHER}&vault=${GUEST}&contract=${GUEST}&tokenId=1`;
    const ask = () => fetchText(`http://127.0.0.1:${port}${path}`, { "X-API-KEY": key });
    // One question has a statement of its own, several share one.
    const answers = [await ask(), ...(await Promise.all(Array.from({ length: 20 }, ask)))];
    expect(answers, path).toEqual(new Array(21).fill("true"));
  }
  const metrics = await fetchText(`http://127.0.0.1:${metricsPort}/metrics`);
  const batches = /batch_questions_count\{kind="checks"\} (\d+)/.exec(metrics)?.[1];
  expect(Number(batches)).toBeLessThan((CHECKS.length * 21) / 2);
});

const fetchText = async (url: string, headers: Record<string, string> = {}): Promise<string> => {
  const response = await fetch(url, { headers });
  const body = await response.text();
  if (response.status !== 200) throw new Error(`${url}: ${response.status} ${body}`);
  return body;
};

type Row = { type: string; vault: Address; delegate: Address; contract: Address; token_id: string; rights: Hex };
type Some<T> = [T, ...T[]];

/** Reads the samples, which have rights and every scope, and some other rows, by type: most rows have the same type. */
const readRows = async (
  database: pg.Client,
  schema: string,
  version: "v1" | "v2",
  random: Random,
): Promise<Some<Some<Row>>> => {
  const { rows } = await database.query<Row>(
    `select type, vault, delegate, contract, token_id, ${version === "v2" ? "rights" : `'${zeroHash}'`} as rights
     from "${schema}".delegation_${version} where block_number < 1000 or block_number % 251 = $1
     order by vault, delegate, type, contract, token_id`,
    [random.integer(0, 250)],
  );
  const byType = new Map<string, Some<Row>>();
  for (const row of rows) byType.set(row.type, [row, ...(byType.get(row.type) ?? [])]);
  const [first, ...others] = byType.values();
  if (!first) throw new Error("The data set has no delegations.");
  return [first, ...others];
};

/** Draws the parameters of a check from one delegation, or from parts of several. */
const drawCheck = (rowsByType: Some<Some<Row>>, random: Random) => {
  const pick = () => random.pick(random.pick(rowsByType));
  const row = pick();
  const mostly = <Key extends keyof Row>(key: Key): Row[Key] => (random.chance(0.9) ? row : pick())[key];
  return {
    to: random.chance(0.2) ? getAddress(mostly("delegate")) : mostly("delegate"),
    from: mostly("vault"),
    contract: mostly("contract"),
    tokenId: mostly("token_id"),
    rights: random.chance(0.5) ? mostly("rights") : random.pick([zeroHash, AIRDROP]),
    chainId: "1",
  };
};
