import { expect, onTestFinished, vi } from "vitest";
import type { RegistryError } from "../../client/src/index.ts";
import { type LatestEvent, watchChanges } from "../../client/src/watch.ts";
import { FRESH_FOR_A_DAY, startTestApi, VAULT } from "../support/api.ts";
import { readAllPages } from "../support/changes.ts";
import { test as base } from "../support/test.ts";

const test = base.extend("env", { RATE_LIMIT_REQUESTS: "1000" });

const CHAINS = ["1", "137"];

/** A fetch() whose streams break after some of their bytes, within events. */
const breakStreams = (bytes: number) => {
  let connections = 0;
  const fetchBroken: typeof fetch = async (...parameters) => {
    connections++;
    const response = await fetch(...parameters);
    let left = bytes;
    const cut = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        controller.enqueue(chunk.subarray(0, left));
        left -= chunk.length;
        if (left <= 0) controller.error(new TypeError("terminated"));
      },
    });
    return new Response(response.body?.pipeThrough(cut), response);
  };
  return { fetch: fetchBroken, connections: () => connections };
};

test("reads every change once, over connections that break", { timeout: 120_000 }, async ({ api }) => {
  const pages = await readAllPages(api, "?finality=latest");
  const expected = pages.flatMap(({ changes }) => changes);
  const keyOf = (change: { chainId: number; transactionHash: string; logIndex: number; ordinal: number }) =>
    [change.chainId, change.transactionHash, change.logIndex, change.ordinal].join();

  const broken = breakStreams(60_000);
  const read: LatestEvent[] = [];
  const service = { url: api.url, fetch: broken.fetch };
  for await (const event of watchChanges(service, { finality: "latest", cursor: "start" })) {
    read.push(event);
    if (event.type === "progress" && CHAINS.every((chainId) => event.blocks[chainId])) break;
  }
  const changes = read.flatMap((event) => (event.type === "change" ? [event.change] : []));
  expect(changes.map(keyOf).toSorted()).toEqual(expected.map(keyOf).toSorted());
  expect(broken.connections()).toBeGreaterThan(1);
  const [change] = changes;
  expect(change).toMatchObject({ blockNumber: expect.any(BigInt), kind: expect.any(String), final: false });

  const last = read.at(-1)?.cursor ?? "";
  const aborting = new AbortController();
  const rest = watchChanges({ url: api.url }, { finality: "latest", cursor: last, signal: aborting.signal });
  expect(await rest.next()).toMatchObject({ value: { type: "progress" } });
  aborting.abort(new Error("enough"));
  await expect(rest.next()).rejects.toThrow("enough");
});

test("asks for what its options name", async ({ api }) => {
  const [expected] = await readAllPages(api, `?finality=latest&wallet=${VAULT}&chainId=1&limit=1000`);
  let changes = 0;
  const options = { wallet: VAULT, chainId: 1, finality: "latest", cursor: "start" } as const;
  for await (const event of watchChanges({ url: api.url }, options)) {
    if (event.type === "progress") break;
    if (event.type === "change") changes++;
  }
  expect(changes).toBe(expected?.changes.length);
});

test("throws what the service refuses, and does not ask again", async ({ api }) => {
  let asked = 0;
  const counted: typeof fetch = (...parameters) => {
    asked++;
    return fetch(...parameters);
  };
  const refused = watchChanges({ url: api.url, fetch: counted }, { cursor: "made-up" }).next();
  await expect(refused).rejects.toMatchObject({ status: 400, isRetryable: false } satisfies Partial<RegistryError>);
  expect(asked).toBe(1);
});

test("tells of each wait while the service is out of reach", async () => {
  const aborting = new AbortController();
  const waits: number[] = [];
  const onWait = ({ ms }: { ms: number }) => {
    waits.push(ms);
    if (waits.length === 3) aborting.abort(new Error("enough"));
  };
  const watched = watchChanges({ url: "http://127.0.0.1:1", onWait }, { signal: aborting.signal });
  await expect(watched.next()).rejects.toThrow("enough");
  expect(waits[2]).toBeGreaterThan(waits[0] ?? 0);
});

test("comes back when a service that stops says so, not at once", async ({ databaseUrl }) => {
  const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const aborting = new AbortController();
  let waited = 0;
  const onWait = ({ ms }: { ms: number }) => {
    waited = ms;
    aborting.abort(new Error("enough"));
  };
  const watched = watchChanges({ url: api.url, onWait }, { signal: aborting.signal });
  await watched.next();
  const next = watched.next();
  await Promise.all([expect(next).rejects.toThrow("enough"), api.stop()]);
  expect(waited).toBeGreaterThanOrEqual(1_000);
});

/** A fetch() whose only response has one event at once, and the others later. */
const respondOnce = () => {
  const progress = (id: string) => new TextEncoder().encode(`event: progress\nid: ${id}\ndata: {"blocks":{}}\n\n`);
  let sendRest = () => {};
  let connections = 0;
  const fetchOnce: typeof fetch = async (_, init) => {
    connections++;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        controller.enqueue(progress("first"));
        sendRest = () => controller.enqueue(progress("second"));
        init?.signal?.addEventListener("abort", () => controller.error(init.signal?.reason));
      },
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  };
  return { fetch: fetchOnce, sendRest: () => sendRest(), connections: () => connections };
};

test("keeps its connection while the caller takes a minute for an event", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const service = respondOnce();
  const watched = watchChanges({ url: "http://service", fetch: service.fetch });
  expect(await watched.next()).toMatchObject({ value: { cursor: "first" } });
  vi.advanceTimersByTime(60_000);
  service.sendRest();
  expect(await watched.next()).toMatchObject({ value: { cursor: "second" } });
  expect(service.connections()).toBe(1);
  await watched.return(undefined as never);
});

test("waits as long as the service asks, within reason", async () => {
  const waits: number[] = [];
  for (const seconds of ["60", "99999999999"]) {
    const aborting = new AbortController();
    const refused: typeof fetch = async () =>
      new Response("busy", { status: 503, headers: { "Retry-After": seconds } });
    const onWait = ({ ms }: { ms: number }) => {
      waits.push(ms);
      aborting.abort(new Error("enough"));
    };
    const watched = watchChanges({ url: "http://service", fetch: refused, onWait }, { signal: aborting.signal });
    await expect(watched.next()).rejects.toThrow("enough");
  }
  expect(waits[0]).toBeGreaterThanOrEqual(60_000);
  // A longer one ends at once.
  expect(waits[1]).toBeLessThan(2 ** 31);
});
