import { expect } from "vitest";
import { FRESH_FOR_A_DAY, HOT, startTestApi, VAULT } from "../../support/api.ts";
import { ALL, askChecks, postChecks } from "../../support/bulk-checks.ts";
import { addKey } from "../../support/keys.ts";
import { waitUntil } from "../../support/setup.ts";
import { test as base } from "../../support/test.ts";

const test = base.extend("env", { RATE_LIMIT_REQUESTS: "25", TRUST_PROXY: "127.0.0.1" });

const repeat = (count: number) => ({ checks: new Array(count).fill(ALL) });

test("each check counts as one request, and a body with more than are left is refused as a whole", async ({ api }) => {
  let address = 0;
  const nextClient = () => {
    const headers = { "X-Forwarded-For": `192.0.2.${++address}` };
    return (count: number) => postChecks(api, repeat(count), { headers });
  };
  const left = (response: Response) => response.headers.get("RateLimit");

  const one = nextClient();
  const whole = await one(25);
  expect([whole.status, left(whole)]).toEqual([200, '"default";r=0;t=10']);
  expect((await one(1)).status).toBe(429);

  const two = nextClient();
  expect(left(await two(13))).toBe('"default";r=12;t=10');
  const refused = await two(13);
  expect([refused.status, Number(refused.headers.get("Retry-After"))]).toEqual([429, 10]);
  // The refused request itself counted as one.
  expect(left(await two(11))).toBe('"default";r=0;t=10');

  const tooMany = await nextClient()(26);
  expect([tooMany.status, await tooMany.json()]).toMatchObject([
    429,
    { detail: "This request counts as 26. The limit without an API key is 25 requests in 10 s." },
  ]);
});

test("a refused request is admitted after its Retry-After, although it counted itself", async ({ databaseUrl }) => {
  let now = 0;
  const env = { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "25" };
  const limited = await startTestApi({ databaseUrl, env, now: () => now });
  await limited.get(`/registry/v2/${HOT}`);
  now = 1_000;
  const refused = await postChecks(limited, repeat(25));
  expect(refused.status).toBe(429);
  now += 1000 * Number(refused.headers.get("Retry-After"));
  expect((await postChecks(limited, repeat(25))).status).toBe(200);
});

test("a key lifts the limit, for checks of v1 too, and counts each check", async ({ api, database }) => {
  const { key, id } = await addKey(database);
  const checks = [...new Array(999).fill(ALL), { registry: "v1", check: "all", delegate: HOT, vault: VAULT }];
  for (let round = 0; round < 3; round++) {
    const { answers } = await askChecks(api, { checks }, { "X-API-KEY": key });
    expect(answers.filter(({ result }) => result === true)).toHaveLength(1000);
  }
  const response = await postChecks(api, { checks: [ALL] }, { headers: { "X-API-KEY": key } });
  expect(response.headers.get("RateLimit")).toBeNull();
  const count = async () => {
    const { rows } = await database.query(
      "select sum(requests)::int as requests from service.api_key_usage where api_key_id = $1",
      [id],
    );
    return rows[0].requests as number | null;
  };
  await waitUntil("the usage is stored", count, 30, (requests) => requests === 3001);
  const unknown = await postChecks(api, { checks: [ALL] }, { headers: { "X-API-KEY": "delreg_unknown" } });
  expect(unknown.status).toBe(401);
});
