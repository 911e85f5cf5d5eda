import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Batch, BatchLoad } from "../../api/batch.ts";
import { createSampleDatabase, FRESH_FOR_A_DAY, FRIEND, GUEST, HOT, startApi, VAULT } from "../support/api.ts";
import { connect } from "../support/setup.ts";

// Questions that arrive together are asked together. None pays for another's trouble.

const MATES = 60;

const check = (from: string, to: string) => `/registry/v2/check/all?to=${to}&from=${from}`;
const list = (wallet: string) => `/registry/v2/${wallet}`;

/** Makes whatever finds a delegation to a wallet do something else, in the view that the API reads. */
const poison = async (databaseUrl: string, delegate: string, sql: string) => {
  const database = await connect(databaseUrl);
  const { rows } = await database.query("select schema from indexer.shard where name = 'registry'");
  await database.query(
    `create or replace view registry.delegation_v2 as select * from "${rows[0].schema}".delegation_v2
     where case when delegate = '${delegate.toLowerCase()}' then ${sql} else true end`,
  );
};

/** Asks all at once, the poisoned one among them; tells what each was answered, and when. */
const askTogether = async (api: Awaited<ReturnType<typeof startApi>>, poisoned: string, mates: readonly string[]) => {
  const startedAt = performance.now();
  const ask = async (path: string) => {
    const response = await api.get(path);
    return { path, status: response.status, body: await response.text(), ms: performance.now() - startedAt };
  };
  const middle = mates.length / 2;
  const all = [...mates.slice(0, middle), poisoned, ...mates.slice(middle)];
  const answers = await Promise.all(all.map(ask));
  return {
    poisoned: answers.filter(({ path }) => path === poisoned),
    mates: answers.filter(({ path }) => path !== poisoned),
  };
};

const KINDS = [
  { kind: "checks", poisoned: check(VAULT, HOT), mate: check(VAULT, FRIEND), answer: "false" },
  { kind: "lists", poisoned: list(HOT), mate: list(GUEST), answer: null },
];

for (const { kind, poisoned, mate, answer } of KINDS) {
  test(`${kind}: one that fails is a 500, and all that were asked with it are answered`, async () => {
    const databaseUrl = await createSampleDatabase();
    const api = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    const expected = answer ?? (await (await api.get(mate)).text());
    expect((await api.get(poisoned)).status).toBe(200);
    await poison(databaseUrl, HOT, "1 / (length(delegate) - 42) = 1");

    for (let round = 0; round < 5; round++) {
      const answers = await askTogether(api, poisoned, new Array(MATES).fill(mate));
      expect(answers.poisoned.map(({ status }) => status)).toEqual([500]);
      expect(answers.mates).toHaveLength(MATES);
      for (const { status, body } of answers.mates) expect([status, body]).toEqual([200, expected]);
    }
  });

  test(`${kind}: one that is slow is given up, and all that were asked with it are answered before`, async () => {
    const databaseUrl = await createSampleDatabase();
    const api = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    const expected = answer ?? (await (await api.get(mate)).text());
    await poison(databaseUrl, HOT, "pg_sleep(30)::text = ''");

    const answers = await askTogether(api, poisoned, new Array(MATES).fill(mate));
    expect(answers.poisoned.map(({ status }) => status)).toEqual([503]);
    for (const { status, body } of answers.mates) expect([status, body]).toEqual([200, expected]);
    const slowest = Math.max(...answers.mates.map(({ ms }) => ms));
    expect(slowest).toBeLessThan(Math.min(...answers.poisoned.map(({ ms }) => ms)));
  });
}

test("a question that comes alone is asked at once, those that arrive together go together, those that arrive meanwhile go together next; one that is slow holds up none", async () => {
  const batches: number[][] = [];
  const open: (() => void)[] = [];
  const batch = new Batch<number, string>(async (questions) => {
    batches.push([...questions]);
    await new Promise<void>((resolve) => open.push(resolve));
    return questions.map((question) => `answer ${question}`);
  }, new BatchLoad());
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  const alone = batch.answer(0);
  expect(batches).toEqual([[0]]);
  const first = [1, 2, 3].map((question) => batch.answer(question));
  open.shift()?.();
  expect(await alone).toBe("answer 0");
  await turn();
  const second = [4].map((question) => batch.answer(question));
  await turn();
  second.push(...[5, 6].map((question) => batch.answer(question)));
  await turn();
  expect(batches).toEqual([[0], [1, 2, 3]]);
  open.shift()?.();
  expect(await Promise.all(first)).toEqual(["answer 1", "answer 2", "answer 3"]);
  await turn();
  expect(batches).toEqual([[0], [1, 2, 3], [4, 5, 6]]);

  const third = batch.answer(7);
  await expect.poll(() => batches.at(-1)).toEqual([7]);
  open.pop()?.();
  expect(await third).toBe("answer 7");
  open.shift()?.();
  expect(await Promise.all(second)).toEqual(["answer 4", "answer 5", "answer 6"]);
});

test("while nothing is answered, a batch is not asked again question by question", async () => {
  let statements = 0;
  const batch = new Batch<number, string>(async () => {
    statements++;
    throw new Error("no answers today");
  }, new BatchLoad());
  const outcomes = await Promise.allSettled(Array.from({ length: 30 }, (_, question) => batch.answer(question)));
  expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
  // The first, all others together, and a few of them alone.
  expect(statements).toBeLessThanOrEqual(6);
});

/** Answers after so long, or as it is told. */
const slowly = (statements: number[][], msOf: (questions: readonly number[]) => number) =>
  new Batch<number, string>(async (questions) => {
    statements.push([...questions]);
    await sleep(msOf(questions));
    if (questions.includes(POISON)) throw new Error("This cannot be answered.");
    return questions.map((question) => `answer ${question}`);
  }, new BatchLoad());
const POISON = -1;
const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);

test("while everything is slow, nothing is asked twice that is answered after all", async () => {
  const statements: number[][] = [];
  const batch = slowly(statements, () => 400);
  const startedAt = performance.now();
  const answers = await Promise.all(numbers(64).map((question) => batch.answer(question)));
  expect(answers).toEqual(numbers(64).map((question) => `answer ${question}`));
  expect(performance.now() - startedAt).toBeLessThan(1_300);
  expect(statements.length).toBeLessThan(15);
});

test("questions that a batch has no room for do not wait for it when it is slow", async () => {
  const statements: number[][] = [];
  const batch = slowly(statements, (questions) => (questions.includes(5) ? 1_000 : 1));
  const answeredAt = new Map<number, number>();
  const startedAt = performance.now();
  await Promise.all(
    numbers(100).map(async (question) => {
      await batch.answer(question);
      answeredAt.set(question, performance.now() - startedAt);
    }),
  );
  for (const question of numbers(100).slice(50)) expect(answeredAt.get(question)).toBeLessThan(250);
});

test("several that fail, slowly, in one batch: all others are answered", async () => {
  const batch = slowly([], (questions) => (questions.includes(POISON) ? 700 : 1));
  const poisoned = [POISON, POISON].map((question) => batch.answer(question).catch(() => "refused"));
  const others = numbers(25).map((question) => batch.answer(question));
  expect(await Promise.all(others)).toEqual(numbers(25).map((question) => `answer ${question}`));
  expect(await Promise.all(poisoned)).toEqual(["refused", "refused"]);
});

test("a question that has waited too long is given up, and told so", async () => {
  const batch = slowly([], () => 3_000);
  const startedAt = performance.now();
  const outcomes = await Promise.allSettled(numbers(300).map((question) => batch.answer(question)));
  const refused = outcomes.filter(({ status }) => status === "rejected");
  expect(refused.length).toBeGreaterThan(150);
  for (const { reason } of refused as PromiseRejectedResult[]) {
    expect(reason).toMatchObject({ problem: "overloaded" });
  }
  expect(performance.now() - startedAt).toBeLessThan(7_000);
});
