import { expect } from "vitest";
import type { RegistryError } from "../../client/src/index.ts";
import { type LatestEvent, watchChanges } from "../../client/src/watch.ts";
import { VAULT } from "../support/api.ts";
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
