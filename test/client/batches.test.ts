import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { SlidingWindow } from "../../api/limits/sliding-window.ts";
import { type ClientOptions, createClient, RegistryError, type Wait } from "../../client/src/index.ts";

// The client sends many checks as fast as the rate limit allows. The clock is simulated: tests take no time.

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const ADDRESS = "0x00000000000000000000000000000000000000aa";

type Body = { checks: { tokenId: string }[] };
type Reply = (body: Body, count: number) => Response;

const respond = (json: unknown, status = 200, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(json), { status, headers });

/** Answers checks with their own token ids. */
const answer = ({ checks }: Body, headers: Record<string, string> = {}) =>
  respond(
    { answers: checks.map(({ tokenId }) => ({ result: tokenId })), blocks: { 1: { number: 7, final: true } } },
    200,
    headers,
  );

const refuse = (name: string, status: number, headers: Record<string, string> = {}) =>
  respond({ type: `/docs#problem-${name}`, title: name, status, detail: `It is ${name}.` }, status, headers);

/** Asks a service for a number of checks in one tick. @returns the sizes of bodies, the waits, and the outcomes */
const ask = async (count: number, reply: Reply, options: Partial<ClientOptions> = {}, signal?: AbortSignal) => {
  const sizes: number[] = [];
  const statuses: number[] = [];
  const waits: Wait[] = [];
  let inFlight = 0;
  const registry = createClient({
    url: "http://service",
    ...options,
    onWait: (wait) => {
      waits.push(wait);
      options.onWait?.(wait);
    },
    fetch: async (url, init) => {
      expect(++inFlight, "requests at a time").toBe(1);
      await new Promise((resolve) => setTimeout(resolve, 20));
      inFlight--;
      const tokenId = new URL(String(url)).searchParams.get("tokenId");
      const body: Body = tokenId === null ? JSON.parse(String(init?.body)) : { checks: [{ tokenId }] };
      const response = reply(body, body.checks.length);
      sizes.push(body.checks.length);
      statuses.push(response.status);
      if (tokenId === null || response.status !== 200) return response;
      const block = { "X-Indexed-Block": "7", "X-Finalized-Block": "7" };
      return respond(tokenId, 200, { ...Object.fromEntries(response.headers), ...block });
    },
  });
  const question = { registry: "v2", check: "erc1155", delegate: ADDRESS, vault: ADDRESS, contract: ADDRESS } as const;
  const started = Date.now();
  const asking = Promise.allSettled(
    Array.from({ length: count }, (_, place) => registry.check({ ...question, tokenId: BigInt(place) }, { signal })),
  );
  let isOver = false;
  void asking.then(() => {
    isOver = true;
  });
  while (!isOver) await vi.advanceTimersByTimeAsync(10);
  const outcomes = await asking;
  return {
    sizes,
    statuses,
    waits,
    seconds: (Date.now() - started) / 1000,
    values: outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [Number(outcome.value.value)] : [])),
    errors: outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : [])),
  };
};

const allPlaces = (count: number) => [...new Array(count).keys()];

/** A service with the API's rate limit, for one address. */
const createLimitedService = (requests: number) => {
  const window = new SlidingWindow({ requests, windowMs: 10_000 }, () => Date.now());
  const reply: Reply = (body, count) => {
    const first = window.take("address");
    const isTooLarge = count > requests;
    const decision = first.isAdmitted && count > 1 && !isTooLarge ? window.take("address", count - 1, count) : first;
    const headers = {
      "RateLimit-Policy": `"default";q=${requests};w=10`,
      RateLimit: `"default";r=${decision.remaining};t=${Math.ceil(decision.resetMs / 1000)}`,
    };
    if (decision.isAdmitted && !isTooLarge) return answer(body, headers);
    return refuse("rate-limited", 429, { ...headers, "Retry-After": "10" });
  };
  return { window, reply };
};

describe("many checks of the same tick", () => {
  test("go in bodies of 1,000 with a key, one after another, and each gets its own answer", async () => {
    const { sizes, values } = await ask(2_500, (body) => answer(body), { apiKey: "key" });
    expect(sizes).toEqual([1000, 1000, 500]);
    expect(values).toEqual(allPlaces(2_500));
  });

  test("go in bodies of at most 60 without a key, even if the service has no limit or a high one", async () => {
    const { sizes, values } = await ask(200, (body) => answer(body));
    expect(sizes).toEqual([25, 60, 60, 55]);
    expect(values).toEqual(allPlaces(200));
    expect((await ask(200, createLimitedService(1000).reply, { apiKey: "" })).sizes).toEqual([25, 60, 60, 55]);
  });

  test.for([1, 7, 25, 1500])("use up a limit of %i in 10 s", async (requests) => {
    const { reply } = createLimitedService(requests);
    const { values, statuses, waits, seconds } = await ask(requests * 4, reply);
    expect(values).toEqual(allPlaces(requests * 4));
    // A limit below the usual one is not known before the first response. What is refused counts as a request.
    expect(statuses.filter((status) => status !== 200).length).toBe(requests < 25 ? 1 : 0);
    expect(waits[0]).toMatchObject({ error: null, limit: { quota: requests, windowMs: 10_000 } });
    expect(seconds).toBeLessThan(requests < 25 ? 41 : 31);
  });

  test("go on although others behind the same address use the limit", async () => {
    const { window, reply } = createLimitedService(25);
    const { values, errors } = await ask(200, reply, {
      onWait: ({ ms }) => void setTimeout(() => window.take("address", 20), ms - 1),
    });
    expect(errors).toEqual([]);
    expect(values).toEqual(allPlaces(200));
  });

  test("wait for all the room that a proof takes, as it cannot be divided", async () => {
    const { reply } = createLimitedService(25);
    const statuses: number[] = [];
    const registry = createClient({
      url: "http://service",
      fetch: async () => {
        const { status, headers } = reply({ checks: Array.from({ length: 10 }, () => ({ tokenId: "1" })) }, 10);
        statuses.push(status);
        return respond(true, status, Object.fromEntries(headers));
      },
      proofs: async (transport) => {
        await transport.send({ path: "/registry/v2/check/all", cost: 10 });
        return { value: true, block: { number: 7n, final: true } };
      },
    });
    const asking = registry.checks(
      Array.from({ length: 9 }, () => ({ registry: "v2", check: "all", delegate: ADDRESS, vault: ADDRESS })),
    );
    await vi.runAllTimersAsync();
    expect((await asking).map(({ value }) => value)).toEqual(Array(9).fill(true));
    expect(statuses).toEqual(Array(9).fill(200));
  });

  test("are sent again after a 503, as late as it says", async () => {
    let requests = 0;
    const { values, waits } = await ask(60, (body) =>
      ++requests % 2 === 1 ? refuse("overloaded", 503, { "Retry-After": "2" }) : answer(body),
    );
    expect(values).toEqual(allPlaces(60));
    expect(waits.find(({ error }) => error)).toMatchObject({ error: { message: "It is overloaded." }, limit: null });
    expect(waits.every(({ ms, error }) => error === null || ms >= 2_000)).toBe(true);
  });

  test("fail together when the service does, without a request for each of the rest", async () => {
    const { sizes, errors } = await ask(5_000, () => refuse("overloaded", 503), { apiKey: "key" });
    expect(sizes).toEqual([1000, 1000, 1000, 1000]);
    expect(errors).toHaveLength(5_000);
    expect(new Set(errors.map(String))).toEqual(new Set(["RegistryError: It is overloaded."]));
    const unknownKey = await ask(5_000, () => refuse("unknown-key", 401), { apiKey: "key" });
    expect([unknownKey.sizes, unknownKey.errors[0]?.status]).toEqual([[1000], 401]);
  });

  test("end with their signal, while they wait and while they are sent", async () => {
    const { reply } = createLimitedService(25);
    const abort = new AbortController();
    const waiting = await ask(100, reply, { onWait: () => abort.abort() }, abort.signal);
    expect([waiting.values, waiting.sizes]).toEqual([allPlaces(25), [25]]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(waiting.sizes).toEqual([25]);

    const other = new AbortController();
    const abortSecond: Reply = (body, count) => {
      if (count > 25) other.abort();
      return answer(body);
    };
    const sending = await ask(2_000, abortSecond, {}, other.signal);
    expect([sending.values, sending.sizes]).toEqual([allPlaces(25), [25, 60]]);
  });

  test("are asked again together if their network is behind, and fail alone if it stays so", async () => {
    const problem = { type: "/docs#problem-stale-index", title: "", status: 503, detail: "It is behind." };
    const blocks = { 1: { number: 7, final: true } };
    const failOdd = ({ checks }: Body) =>
      respond({
        answers: checks.map(({ tokenId }) => (Number(tokenId) % 2 ? { problem } : { result: tokenId })),
        blocks,
      });
    let requests = 0;
    const passing = await ask(20, (body) => (++requests === 1 ? failOdd(body) : answer(body)));
    expect([passing.sizes, passing.values]).toEqual([[20, 10], allPlaces(20)]);
    const lasting = await ask(20, failOdd, { retries: 2 });
    expect([lasting.sizes, lasting.values.length]).toEqual([[20, 10, 10], 10]);
    expect(lasting.errors[0]).toBeInstanceOf(RegistryError);
    expect(lasting.waits).toMatchObject([{ error: { message: "It is behind." } }, { limit: null }]);
  });
});

test("60 of the longest checks fit into a body without a key", async () => {
  vi.useRealTimers();
  const sizes: number[] = [];
  const fetch = async (_: unknown, init: RequestInit | undefined) => {
    sizes.push(String(init?.body).length);
    const { checks } = JSON.parse(String(init?.body)) as Body;
    return answer({ checks: checks.map(() => ({ tokenId: "1" })) });
  };
  const registry = createClient({ url: "http://service", fetch });
  const longest = {
    ...{ registry: "v2", check: "erc1155", delegate: ADDRESS, vault: ADDRESS, contract: ADDRESS },
    ...{ tokenId: 2n ** 256n - 1n, rights: "\u0001".repeat(31), chainId: 999_999_999_999_999 },
  } as const;
  const at = { block: 999_999_999_999_999n };
  await registry.checks(new Array(85).fill(longest), at);
  expect(sizes).toHaveLength(2);
  expect(sizes[1]).toBeLessThanOrEqual(32_768);
  expect(sizes[1]).toBeGreaterThan(30_000);
});

test("the last check of many fails alone too, in a request of its own", async () => {
  const problem = { type: "/docs#problem-stale-index", title: "", status: 503, detail: "It is behind." };
  let requests = 0;
  const { sizes, values, errors } = await ask(26, (body, count) => {
    if (count === 1) return refuse("bad-parameter", 400);
    const blocks = { 1: { number: 7, final: true } };
    return ++requests === 1 ? respond({ answers: body.checks.map(() => ({ problem })), blocks }) : answer(body);
  });
  expect([sizes, values, errors.map(String)]).toEqual([
    [25, 1, 25],
    allPlaces(25),
    ["RegistryError: It is bad-parameter."],
  ]);
});

test("a list goes on from the cursor of a page", async () => {
  vi.useRealTimers();
  const asked: (string | null)[] = [];
  const fetch = async (url: unknown) => {
    const cursor = new URL(String(url)).searchParams.get("cursor");
    asked.push(cursor);
    return respond({ delegations: [], blocks: {}, unanswered: [], next: cursor === null ? "second" : null });
  };
  const registry = createClient({ url: "http://service", fetch });
  const readFirst = async (cursor?: string) => {
    for await (const page of registry.delegations(ADDRESS, { cursor }).pages()) return page;
    return expect.fail("no page");
  };
  const { next } = await readFirst();
  expect(next).toBe("second");
  expect((await readFirst("second")).next).toBe(null);
  expect(asked).toEqual([null, "second"]);
});
