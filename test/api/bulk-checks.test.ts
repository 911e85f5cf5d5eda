import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Api,
  COIN,
  createSampleDatabase,
  FRESH_FOR_A_DAY,
  GONE,
  GUEST,
  HOT,
  launchApi,
  NFT,
  startTestApi,
  VAULT,
} from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { addKey } from "../support/keys.ts";
import { connectClient, waitUntil } from "../support/setup.ts";

// POST /registry/checks, over the sandbox's samples. test/index/differential.test.ts compares it with the registries.

const PATH = "/registry/checks";

let databaseUrl: string;
let database: pg.Client;
let api: Api;
beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
  database = new pg.Client(databaseUrl);
  await database.connect();
  api = await launchApi({ databaseUrl, env: FRESH_FOR_A_DAY });
});
afterAll(async () => {
  await api?.stop();
  await database?.end();
});

type Answers = {
  answers: { id?: unknown; result?: boolean | string; problem?: { type: string; status: number; detail: string } }[];
  blocks: Record<string, { number: number; timestamp: number | null; final: boolean }>;
};

type PostOptions = { headers?: Record<string, string>; query?: string; to?: Api };

const post = (body: unknown, { headers = {}, query = "", to = api }: PostOptions = {}) =>
  to.get(`${PATH}${query}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

const ask = async (body: unknown): Promise<Answers> => {
  const response = await post(body);
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text);
};

const ALL = { registry: "v2", check: "all", to: HOT, from: VAULT };

test("checks of every kind, registry and network are answered in their order", async () => {
  const v1 = { registry: "v1", delegate: HOT, vault: VAULT };
  const v2 = { registry: "v2", delegate: GUEST, vault: VAULT };
  const { answers, blocks } = await ask({
    checks: [
      { id: "first", ...v1, check: "all" },
      { id: 2, ...v1, check: "contract", contract: COIN },
      { ...v1, delegate: GUEST, check: "token", contract: NFT, tokenId: 8520 },
      { id: "4", ...v1, delegate: GUEST, check: "token", contract: NFT, tokenId: "0x2149" },
      { id: "5", ...ALL, chainId: 137 },
      { id: "6", ...v2, check: "contract", contract: NFT },
      { id: "7", ...v2, check: "erc721", contract: NFT.toLowerCase(), tokenId: "8520" },
      { id: "8", ...v2, check: "erc20", contract: COIN },
      { id: "9", ...v2, check: "erc1155", contract: NFT, tokenId: 7, rights: "airdrop" },
      { id: "10", ...v2, check: "erc1155", contract: NFT, tokenId: 7, rights: null },
      { id: "11", ...ALL, check: "erc20", contract: COIN, chainId: "1" },
    ],
  });
  expect(answers).toEqual([
    { id: "first", result: true },
    { id: 2, result: true },
    { result: true },
    { id: "4", result: false },
    { id: "5", result: true },
    { id: "6", result: false },
    { id: "7", result: true },
    { id: "8", result: "250000" },
    { id: "9", result: "5" },
    { id: "10", result: "0" },
    { id: "11", result: String(2n ** 256n - 1n) },
  ]);
  const { headers } = await api.get(`/registry/v2/check/all?to=${HOT}&from=${VAULT}`);
  const newest = Number(headers.get("X-Indexed-Block"));
  expect(Object.keys(blocks)).toEqual(["1", "137"]);
  expect(blocks[1]).toEqual({
    number: newest,
    timestamp: Number(headers.get("X-Indexed-Block-Timestamp")),
    final: false,
  });
});

test("a bad check fails alone, with a problem that names every bad field", async () => {
  const { answers } = await ask({
    checks: [
      { id: 1, ...ALL, to: "0x12", from: undefined },
      { id: 2, ...ALL, chainId: 10 },
      { id: 3, ...ALL, delegate: GUEST },
      { id: 4, ...ALL, check: "token" },
      { id: 5, check: "most" },
      "a check",
      null,
      { id: 8, ...ALL, check: "erc721", contract: NFT, tokenId: 2 ** 60 },
      { id: 9, ...ALL, check: "erc721", contract: NFT, tokenId: [1] },
      { id: 10, registry: "v1", check: "all", to: HOT, from: VAULT },
      { id: { a: 1 }, ...ALL },
      { id: 2 ** 60, ...ALL },
      { id: 13, registry: { toString: 1 }, check: "all" },
      { id: 14, ...ALL, check: "erc721", contract: NFT, tokenId: 1.5 },
      { id: 15, ...ALL, block: 1 },
      { id: 16, ...ALL, to: "0x12", minBlock: "1", timestamp: "" },
      { id: 17, ...ALL, block: null },
    ],
  });
  const shown = answers.map(({ id, result, problem }) => [id, result ?? `${problem?.status} ${problem?.detail}`]);
  expect(shown).toEqual([
    [
      1,
      expect.stringMatching(/^400 to must be 0x and 40 hex digits\. vault is required \(or its other name, from\)\.$/),
    ],
    [
      2,
      expect.stringMatching(/^400 chainId names a network that is not indexed here; indexed are 1 \(Ethereum\), 137/),
    ],
    [3, "400 delegate is given with different values (also as to)."],
    [4, "400 check must be one of all, contract, erc721, erc20, erc1155, on v2."],
    [5, expect.stringMatching(/^400 registry must be v1 or v2\. check must be one of all, contract, token, erc721/)],
    [undefined, "400 checks must be objects."],
    [undefined, "400 checks must be objects."],
    [8, "400 tokenId must be a string above 2^53: it is rounded."],
    [9, "400 tokenId must be a string."],
    [10, "400 delegate is required. vault is required."],
    [undefined, "400 id must be a string, or an integer up to 2^53."],
    [undefined, "400 id must be a string, or an integer up to 2^53."],
    [13, "400 registry must be v1 or v2."],
    [14, "400 tokenId must be a string."],
    [15, "400 block is not taken here: use block or minBlock beside checks."],
    [
      16,
      `400 to must be 0x and 40 hex digits. ${["minBlock", "timestamp"]
        .map((name) => `${name} is not taken here: use block or minBlock beside checks.`)
        .join(" ")}`,
    ],
    [17, true],
  ]);
});

test("a chain that is not indexed yet fails its own checks, and has no block", async () => {
  const url = await createSampleDatabase();
  const client = await connectClient(url);
  await client.query("set session_replication_role = replica");
  await client.query(`delete from ${await readServedSchema(client)}.indexed_block where chain_id = 137`);
  const partial = await startTestApi({ databaseUrl: url, env: FRESH_FOR_A_DAY });
  const response = await post({ checks: [ALL, { ...ALL, chainId: 137 }, ALL] }, { to: partial });
  const { answers, blocks } = (await response.json()) as Answers;
  expect(response.status).toBe(200);
  expect(answers).toMatchObject([
    { result: true },
    { problem: { status: 503, type: "/docs#problem-not-indexed" } },
    { result: true },
  ]);
  expect(Object.keys(blocks)).toEqual(["1"]);
});

test("all checks are answered for a past block", async () => {
  const { rows } = await database.query(
    `select block_number::int as block from registry.delegation_change
     where chain_id = 1 and registry = 'v2' and type = 'ALL' and delegate = $1 order by block_number`,
    [GONE.toLowerCase()],
  );
  const [made, revoked] = rows.map(({ block }) => block as number);
  const checks = [
    { ...ALL, to: GONE },
    { ...ALL, to: GONE, check: "erc20", contract: COIN },
  ];
  const none = [{ result: false }, { result: "0" }];
  const both = [{ result: true }, { result: String(2n ** 256n - 1n) }];
  expect(await ask({ checks, block: made })).toMatchObject({
    answers: both,
    blocks: { 1: { number: made, timestamp: null } },
  });
  expect((await ask({ checks, block: String(revoked) })).answers).toEqual(none);
  expect((await ask({ checks, minBlock: 1 })).answers).toEqual(none);
  const { headers } = await api.get(`/registry/v2/${HOT}`);
  const final = Number(headers.get("X-Finalized-Block"));
  expect((await ask({ checks, block: "finalized" })).blocks[1]).toMatchObject({ number: final, final: true });

  const { answers, blocks } = await ask({ checks, block: 10_000 });
  for (const { problem } of answers) expect(problem).toMatchObject({ status: 503, type: "/docs#problem-not-indexed" });
  expect(blocks).toEqual({});

  // A number is another time on each network.
  const both137 = [ALL, { ...ALL, chainId: 137 }];
  for (const at of [{ block: 1 }, { minBlock: 1 }]) {
    const refused = await post({ checks: both137, ...at });
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { errors: [{ parameter: Object.keys(at)[0] }] },
    ]);
  }
  expect(Object.keys((await ask({ checks: both137, block: "finalized" })).blocks)).toEqual(["1", "137"]);
});

test("a moment that is not taken is a 400, in the body and in the query", async () => {
  const cases: [body: object, query: string, errors: Record<string, string>][] = [
    [{ timestamp: 1 }, "", { timestamp: "is not taken here: use block or minBlock" }],
    [{ timestamp: null, block: -1 }, "", { block: "must be a block", timestamp: "is not taken here" }],
    [{}, "?block=1", { block: "is not taken here: use block or minBlock in the body" }],
    [{}, "?minBlock=1&timestamp=%zz", { minBlock: "is not taken here", timestamp: "is not taken here" }],
  ];
  for (const [body, query, errors] of cases) {
    const response = await post({ checks: [ALL], ...body }, { query });
    const named = Object.entries(errors).map(([parameter, message]) => ({
      parameter,
      message: expect.stringMatching(`^${message}`),
    }));
    const found = (await response.json()) as { errors: { parameter: string }[] };
    const sorted = found.errors.toSorted((a, b) => a.parameter.localeCompare(b.parameter));
    expect([response.status, sorted], JSON.stringify({ body, query })).toEqual([400, named]);
  }
  expect((await post({ checks: [ALL], note: "ignored" }, { query: "?note=%zz" })).status).toBe(200);
});

test("a body that cannot be read is one problem", async () => {
  const { key } = await addKey(database);
  const cases: [body: unknown, status: number, type: string, headers?: Record<string, string>][] = [
    ["{", 400, "bad-parameter"],
    ["[]", 400, "bad-parameter"],
    [{}, 400, "bad-parameter"],
    [{ checks: "all" }, 400, "bad-parameter"],
    [{ checks: new Array(1001).fill(ALL) }, 400, "bad-parameter", { "X-API-KEY": key }],
    [{ checks: [ALL], block: -1 }, 400, "bad-parameter"],
    [{ checks: [ALL], block: "latest" }, 400, "bad-parameter"],
    [{ checks: [ALL], block: 1, minBlock: 1 }, 400, "bad-parameter"],
    [{ checks: [ALL] }, 415, "unsupported-body", { "Content-Type": "text/plain" }],
  ];
  for (const [body, status, type, headers] of cases) {
    const response = await post(body, headers && { headers });
    const problem = await response.json();
    expect([response.status, problem], JSON.stringify(body).slice(0, 80)).toMatchObject([
      status,
      { type: `/docs#problem-${type}` },
    ]);
  }
  expect(await ask({ checks: [] })).toEqual({ answers: [], blocks: {} });
});

test("a body may have 32,768 bytes, with a key 1,000,000", async () => {
  const { key } = await addKey(database);
  const fill = (bytes: number) => {
    const body = JSON.stringify({ checks: [ALL], note: "" });
    return body.replace('"note":""', `"note":"${"x".repeat(bytes - body.length)}"`);
  };
  const send = async (bytes: number, headers = {}) => {
    const response = await post(fill(bytes), { headers });
    return [response.status, ((await response.json()) as { detail?: string }).detail];
  };
  expect(await send(32_768)).toEqual([200, undefined]);
  expect(await send(32_769)).toEqual([413, "A body may have at most 32,768 bytes; with an API key 1,000,000."]);
  expect(await send(1_000_000, { "X-API-KEY": key })).toEqual([200, undefined]);
  expect(await send(1_000_001, { "X-API-KEY": key })).toEqual([413, "A body may have at most 1,000,000 bytes."]);
});

test("a body has at most 8 levels and 20,000 values, and texts in it may have any characters", async () => {
  const { key } = await addKey(database);
  const headers = { "X-API-KEY": key };
  const tooMuch = [400, [{ parameter: "body", message: "must have at most 8 levels and 20,000 values" }]];
  const send = async (note: string) => {
    const response = await post(`{"checks":[${JSON.stringify(ALL)}],"note":${note}}`, { headers });
    return [response.status, ((await response.json()) as { errors?: object[] }).errors];
  };
  const nest = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
  // The body itself is a level.
  expect(await send(nest(7))).toEqual([200, undefined]);
  expect(await send(nest(8))).toEqual(tooMuch);
  expect(await send(`[${"{},".repeat(9_000)}{}]`)).toEqual([200, undefined]);
  expect(await send(`[${"0,".repeat(20_000)}0]`)).toEqual(tooMuch);
  expect(await send("[".repeat(100_000)), "not even JSON").toEqual(tooMuch);
  for (const text of [
    "[".repeat(50),
    "{,".repeat(30_000),
    '"[,'.repeat(30_000),
    "\\".repeat(9),
    '\\"[{,'.repeat(9_000),
  ]) {
    expect(await send(JSON.stringify(text)), text.slice(0, 9)).toEqual([200, undefined]);
  }
  // A quote after an escaped backslash ends a text.
  expect(await send(`["\\\\",${nest(8)}]`)).toEqual(tooMuch);
});

test("only POST is allowed, from pages of any origin", async () => {
  for (const method of ["GET", "HEAD", "PUT", "DELETE"]) {
    const refused = await api.get(PATH, { method });
    expect([refused.status, refused.headers.get("Allow")], method).toEqual([405, "POST, OPTIONS"]);
  }
  const preflight = await api.get(PATH, {
    method: "OPTIONS",
    headers: { Origin: "https://example.com", "Access-Control-Request-Method": "POST" },
  });
  expect(preflight.headers.get("Access-Control-Allow-Methods")).toContain("POST");
  expect(preflight.headers.get("Access-Control-Allow-Headers")).toContain("Content-Type");
});

test("each check counts as one request, and a body with more than are left is refused as a whole", async () => {
  const limited = await startTestApi({
    databaseUrl,
    env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "25", TRUST_PROXY: "127.0.0.1" },
  });
  let client = 0;
  const nextClient = () => ({ "X-Forwarded-For": `192.0.2.${++client}` });
  const send = (count: number, headers: Record<string, string>) =>
    post({ checks: new Array(count).fill(ALL) }, { headers, to: limited });
  const left = (response: Response) => response.headers.get("RateLimit");

  const one = nextClient();
  const whole = await send(25, one);
  expect([whole.status, left(whole)]).toEqual([200, '"default";r=0;t=10']);
  expect((await send(1, one)).status).toBe(429);

  const two = nextClient();
  expect(left(await send(13, two))).toBe('"default";r=12;t=10');
  const refused = await send(13, two);
  expect([refused.status, Number(refused.headers.get("Retry-After"))]).toEqual([429, 10]);
  // The refused request itself counted as one.
  expect(left(await send(11, two))).toBe('"default";r=0;t=10');

  const three = nextClient();
  const tooMany = await send(26, three);
  expect([tooMany.status, await tooMany.json()]).toMatchObject([
    429,
    { detail: "Without an API key, a body may have at most 25 checks: each is one request." },
  ]);
});

test("a refused request is admitted after its Retry-After, although it counted itself", async () => {
  let now = 0;
  const limited = await startTestApi({
    databaseUrl,
    env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "25" },
    now: () => now,
  });
  const send = () => post({ checks: new Array(25).fill(ALL) }, { to: limited });
  await limited.get(`/registry/v2/${HOT}`);
  now = 1_000;
  const refused = await send();
  expect(refused.status).toBe(429);
  now += 1000 * Number(refused.headers.get("Retry-After"));
  expect((await send()).status).toBe(200);
});

test("a key lifts the limit, for checks of v1 too, and counts each check", async () => {
  const limited = await startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "1" } });
  const { key, id } = await addKey(database);
  const checks = [...new Array(999).fill(ALL), { registry: "v1", check: "all", delegate: HOT, vault: VAULT }];
  for (let round = 0; round < 3; round++) {
    const response = await post({ checks }, { headers: { "X-API-KEY": key }, to: limited });
    expect([response.status, response.headers.get("RateLimit")]).toEqual([200, null]);
    const { answers } = (await response.json()) as Answers;
    expect(answers.filter(({ result }) => result === true)).toHaveLength(1000);
  }
  const count = async () => {
    const { rows } = await database.query(
      "select sum(requests)::int as requests from service.api_key_usage where api_key_id = $1",
      [id],
    );
    return rows[0].requests as number | null;
  };
  await waitUntil("the usage is stored", count, 30, (requests) => requests === 3000);
  const unknown = await post({ checks: [ALL] }, { headers: { "X-API-KEY": "delreg_unknown" }, to: limited });
  expect(unknown.status).toBe(401);
});
