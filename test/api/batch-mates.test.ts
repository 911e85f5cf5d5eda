import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { BatchLoad, BatchQueue } from "../../api/database/batch-queue.ts";
import {
  type Api,
  createSampleDatabase,
  FRESH_FOR_A_DAY,
  FRIEND,
  GUEST,
  HOT,
  startTestApi,
  VAULT,
} from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { connectClient } from "../support/setup.ts";

// Concurrent questions share a statement. A failing or slow question never fails the others in its batch.

const MATES = 60;

/** Sends all requests at once, with the poisoned one in the middle, each from its own address: none waits for its turn. */
const askTogether = async (api: Api, poisoned: string, mate: string) => {
  const startedAt = performance.now();
  const ask = async (path: string, place: number) => {
    const response = await api.get(path, { headers: { "X-Forwarded-For": `198.51.100.${place}` } });
    return { path, answer: [response.status, await response.text()], ms: performance.now() - startedAt };
  };
  const half: string[] = new Array(MATES / 2).fill(mate);
  const answers = await Promise.all([...half, poisoned, ...half].map(ask));
  const [bad] = answers.splice(MATES / 2, 1);
  return { status: bad?.answer[0], ms: bad?.ms ?? Number.NaN, mates: answers };
};

test.for([
  ["checks", `/registry/v2/check/all?to=${HOT}&from=${VAULT}`, `/registry/v2/check/all?to=${FRIEND}&from=${VAULT}`],
  ["lists", `/registry/v2/${HOT}`, `/registry/v2/${GUEST}`],
] as const)("%s are answered while one of them fails with 500, or is slow and returns 503", async ([, bad, mate]) => {
  const databaseUrl = await createSampleDatabase();
  const database = await connectClient(databaseUrl);
  const schema = await readServedSchema(database);
  const api = await startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, TRUST_PROXY: "127.0.0.1" } });
  const good = [200, await (await api.get(mate)).text()];
  expect((await api.get(bad)).status).toBe(200);
  /** Adds a condition for one wallet's rows to the view that the API reads. */
  const poison = (sql: string) =>
    database.query(
      `create or replace view registry.delegation_v2 as select * from "${schema}".delegation_v2
       where case when delegate = '${HOT.toLowerCase()}' then ${sql} else true end`,
    );

  await poison("1 / (length(delegate) - 42) = 1");
  for (let round = 0; round < 5; round++) {
    const { status, mates } = await askTogether(api, bad, mate);
    expect(status).toBe(500);
    expect(mates.map(({ answer }) => answer)).toEqual(new Array(MATES).fill(good));
  }

  await poison("pg_sleep(30)::text = ''");
  const { status, ms, mates } = await askTogether(api, bad, mate);
  expect(status).toBe(503);
  expect(mates.map(({ answer }) => answer)).toEqual(new Array(MATES).fill(good));
  expect(Math.max(...mates.map((mate) => mate.ms))).toBeLessThan(ms);
});

const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);
const answersOf = (questions: readonly number[]) => questions.map((question) => `answer ${question}`);

/** Creates a batch that records its statements, each of which waits. */
const createBatch = (wait: (questions: readonly number[]) => Promise<unknown>) => {
  const statements: number[][] = [];
  const batch = new BatchQueue<number, string>(async (questions) => {
    statements.push([...questions]);
    await wait(questions);
    return answersOf(questions);
  }, new BatchLoad());
  const askAll = (questions: readonly number[]) => Promise.all(questions.map((question) => batch.answer(question)));
  return { batch, askAll, statements };
};

/** Creates a promise that open() resolves. */
const createGate = () => {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
};

test("BatchQueue asks a single question at once, and combines questions that arrive together or meanwhile", async () => {
  const gates: (() => void)[] = [];
  const { askAll, statements } = createBatch(() => {
    const { open, opened } = createGate();
    gates.push(open);
    return opened;
  });
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  const alone = askAll([0]);
  expect(statements).toEqual([[0]]);
  const first = askAll([1, 2, 3]);
  gates.shift()?.();
  expect(await alone).toEqual(answersOf([0]));
  await turn();
  const second = askAll([4]);
  await turn();
  const third = askAll([5, 6]);
  await turn();
  expect(statements).toEqual([[0], [1, 2, 3]]);
  gates.shift()?.();
  expect(await first).toEqual(answersOf([1, 2, 3]));
  await turn();
  expect(statements).toEqual([[0], [1, 2, 3], [4, 5, 6]]);

  // A slow statement does not delay the next one.
  const last = askAll([7]);
  await expect.poll(() => statements.at(-1)).toEqual([7]);
  gates.pop()?.();
  expect(await last).toEqual(answersOf([7]));
  gates.shift()?.();
  expect([await second, await third]).toEqual([answersOf([4]), answersOf([5, 6])]);
});

test("BatchQueue does not retry all questions one by one while every statement fails", async () => {
  const { batch, statements } = createBatch(() => Promise.reject(new Error("no answers today")));
  const outcomes = await Promise.allSettled(numbers(30).map((question) => batch.answer(question)));
  expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
  // The first question, all others together, and a few of them alone.
  expect(statements.length).toBeLessThanOrEqual(6);
});

test("BatchQueue asks few questions twice while every statement is slow", async () => {
  const { askAll, statements } = createBatch(() => sleep(400));
  const startedAt = performance.now();
  expect(await askAll(numbers(64))).toEqual(answersOf(numbers(64)));
  expect(performance.now() - startedAt).toBeLessThan(1_300);
  expect(statements.length).toBeLessThan(15);
});

test("BatchQueue does not delay questions beyond its size when a full batch is slow", async () => {
  const { open, opened } = createGate();
  const { batch, askAll } = createBatch(async (questions) => questions.includes(5) && opened);
  const full = numbers(50).map((question) => batch.answer(question));
  const others = numbers(100).slice(50);
  expect(await askAll(others)).toEqual(answersOf(others));
  open();
  expect(await Promise.all(full)).toEqual(answersOf(numbers(50)));
});

test("BatchQueue answers all others when several of its questions fail slowly", async () => {
  const { open, opened } = createGate();
  const POISON = -1;
  const { batch, askAll } = createBatch(async (questions) => {
    if (!questions.includes(POISON)) return;
    await opened;
    throw new Error("This cannot be answered.");
  });
  const poisoned = [POISON, POISON].map((question) => batch.answer(question).catch(() => "refused"));
  const others = askAll(numbers(25));
  setTimeout(open, 700);
  expect(await others).toEqual(answersOf(numbers(25)));
  expect(await Promise.all(poisoned)).toEqual(["refused", "refused"]);
});

test("BatchQueue refuses a question as overloaded after it has waited over 1.4 s", async () => {
  const { open, opened } = createGate();
  const { batch } = createBatch(() => opened);
  const asking = Promise.allSettled(numbers(300).map((question) => batch.answer(question)));
  await new Promise((resolve) => setImmediate(resolve));
  const now = performance.now.bind(performance);
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now() + 1_500);
  onTestFinished(() => clock.mockRestore());
  open();
  const refused = (await asking).filter(({ status }) => status === "rejected");
  expect(refused.length).toBeGreaterThan(150);
  for (const outcome of refused) expect(outcome).toMatchObject({ reason: { problem: "overloaded" } });
});
