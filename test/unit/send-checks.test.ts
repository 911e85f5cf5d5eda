import { expect, test } from "vitest";
import { SlidingWindow } from "../../api/limits/sliding-window.ts";
import type { Answer } from "../../web/checks/answers.ts";
import type { AnswersJson } from "../../web/checks/json.ts";
import type { Check } from "../../web/checks/read-check.ts";
import { sendChecks, type Wait } from "../../web/checks/send-checks.ts";
import type { FetchFailure, FetchResult } from "../../web/shared/fetch-json.ts";

/** Checks whose answers are their own token ids. */
const createChecks = (count: number): Check[] =>
  Array.from({ length: count }, (_, place) => ({
    registry: "v2",
    check: "erc1155",
    delegate: "",
    vault: "",
    tokenId: String(place),
    chainId: "1",
  }));

const respond = (checks: readonly Check[], headers = new Headers()): FetchResult<AnswersJson> => ({
  kind: "ok",
  value: {
    answers: checks.map(({ tokenId = "" }) => ({ result: tokenId })),
    blocks: { 1: { number: 7, final: true } },
  },
  headers,
});

const BUSY: FetchFailure = { kind: "unavailable", problem: "overloaded", seconds: 2, detail: "The service is busy." };

type Post = (checks: readonly Check[]) => FetchResult<AnswersJson>;

/** Sends checks to a service. @returns the sizes of bodies, the waits, and the answers */
const send = async (
  count: number,
  post: Post,
  { onWait = () => {}, abort = new AbortController() }: { onWait?: (wait: Wait) => void; abort?: AbortController } = {},
) => {
  const sizes: number[] = [];
  const waits: Wait[] = [];
  const answers: Answer[] = [];
  const failure = await sendChecks({
    checks: createChecks(count),
    signal: abort.signal,
    post: async (checks) => {
      sizes.push(checks.length);
      return post(checks);
    },
    onAnswers: (start, received) => {
      expect(start).toBe(answers.length);
      answers.push(...received);
    },
    wait: async (wait) => {
      waits.push(wait);
      onWait(wait);
    },
  });
  return { failure, sizes, waits, results: answers.map(({ result }) => Number(result)), answers };
};

const allPlaces = (count: number) => [...new Array(count).keys()];

/** A service with the API's rate limit, for one client. */
const createLimitedService = (requests: number) => {
  const clock = { now: 0 };
  const window = new SlidingWindow({ requests, windowMs: 10_000 }, () => clock.now);
  const post: Post = (checks) => {
    clock.now += 20;
    const { isAdmitted, remaining, resetMs } = window.take("client", checks.length);
    const seconds = Math.ceil(resetMs / 1000);
    if (!isAdmitted) return { kind: "rate-limited", seconds, detail: "Too many requests." };
    const headers = {
      "RateLimit-Policy": `"default";q=${requests};w=10`,
      RateLimit: `"default";r=${remaining};t=${seconds}`,
    };
    return respond(checks, new Headers(headers));
  };
  const onWait = ({ seconds }: Wait): void => {
    clock.now += seconds * 1000;
  };
  return { clock, window, post, onWait };
};

test("without a limit, bodies have 1,000 checks after the first, and every check gets its own answer", async () => {
  const { failure, sizes, results, answers } = await send(2_500, (checks) => respond(checks));
  expect([failure, sizes]).toEqual([null, [1, 1000, 1000, 499]]);
  expect(results).toEqual(allPlaces(2_500));
  expect(answers[3]).toEqual({ result: "3", problem: "", block: "7", final: "true" });
});

test.for([1, 7, 25, 1500])("a limit of %i in 10 s is used up and never exceeded", async (requests) => {
  const { clock, post, onWait } = createLimitedService(requests);
  const { failure, sizes, waits, results } = await send(requests * 4, post, { onWait });
  expect(failure).toBe(null);
  expect(results).toEqual(allPlaces(requests * 4));
  expect(Math.max(...sizes)).toBe(Math.min(1000, requests));
  expect(waits).toHaveLength(3);
  expect(waits[0]?.reason).toBe(`Without an API key, ${requests} checks are answered in 10 s.`);
  expect(clock.now).toBeLessThan(31_000);
});

test("it goes on although other requests of the address use the limit", async () => {
  const { window, post, onWait } = createLimitedService(25);
  const { failure, results } = await send(200, post, {
    onWait: (wait) => {
      onWait(wait);
      window.take("client", 20);
    },
  });
  expect(failure).toBe(null);
  expect(results).toEqual(allPlaces(200));
});

test("it waits as long as a 503 says, and sends the same checks again", async () => {
  let requests = 0;
  const { failure, waits, results } = await send(10, (checks) => (++requests % 3 === 1 ? BUSY : respond(checks)));
  expect(failure).toBe(null);
  expect(waits[0]).toEqual({ seconds: 2, reason: "The service is busy." });
  expect(results).toEqual(allPlaces(10));
});

test("it gives up after five refusals in a row, and at once after another failure", async () => {
  const refused = await send(10, () => BUSY);
  expect([refused.failure, refused.sizes.length, refused.waits.length]).toEqual([BUSY, 5, 4]);
  const unknownKey: FetchFailure = { kind: "failed", status: 401, title: "Unknown key", detail: "" };
  expect(await send(10, () => unknownKey)).toMatchObject({ failure: unknownKey, sizes: [1] });
});

test("a stop while it waits or sends ends it, without an answer to what was in flight", async () => {
  const abort = new AbortController();
  const { post } = createLimitedService(25);
  const waiting = await send(100, post, { abort, onWait: () => abort.abort() });
  expect([waiting.failure, waiting.results]).toEqual([null, allPlaces(25)]);

  const other = new AbortController();
  const sending = await send(
    100,
    (checks) => {
      if (checks.length > 1) other.abort();
      return respond(checks);
    },
    { abort: other },
  );
  expect([sending.failure, sending.results]).toEqual([null, [0]]);
});

test("a response without an answer to a check is a problem, not an answer", async () => {
  const { answers } = await send(3, (checks) => ({ ...respond(checks.slice(1)) }));
  expect(answers[0]).toMatchObject({ result: "", problem: expect.stringMatching(/lacks an answer/) });
});
