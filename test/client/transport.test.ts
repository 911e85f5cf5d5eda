import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { createClient, RegistryError } from "../../client/src/index.ts";
import { findFreePort } from "../../process/ports.ts";
import { startHttp } from "../support/http.ts";

// Services that fail: the client throws for every response that is not an answer, and retries temporary failures.

const WALLETS = {
  delegate: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
  vault: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
} as const;
const BLOCK = { "X-Indexed-Block": "9", "X-Finalized-Block": "7", "X-Indexed-Block-Timestamp": "1" };
const QUESTION = { registry: "v2", check: "all", ...WALLETS } as const;
const OVERLOADED = { type: "/docs#problem-overloaded", title: "Overloaded", status: 503, detail: "Too many wait." };

type Asked = { url: string; body: { checks: unknown[]; block?: string }; key: string | undefined; at: number };
type Reply = {
  status?: number;
  headers?: Record<string, string>;
  json?: unknown;
  text?: string;
  delayMs?: number;
  /** The body never ends. */
  stalls?: boolean;
};

/** Starts a service with a reply to each request, the last one to all others. */
const startService = async (...replies: (Reply | ((asked: Asked) => Reply))[]) => {
  const asked: Asked[] = [];
  const { url } = await startHttp(async (request, response) => {
    const body = await text(request);
    const question = {
      url: request.url ?? "",
      body: body === "" ? { checks: [] } : JSON.parse(body),
      key: request.headers["x-api-key"] as string | undefined,
      at: performance.now(),
    };
    const next = replies[Math.min(asked.length, replies.length - 1)] ?? {};
    asked.push(question);
    const reply = typeof next === "function" ? next(question) : next;
    setTimeout(() => {
      response.writeHead(reply.status ?? 200, reply.headers ?? BLOCK);
      response.write(reply.text ?? JSON.stringify(reply.json) ?? "");
      if (!reply.stalls) response.end();
    }, reply.delayMs ?? 0);
  });
  return { url, asked };
};

/** Finds an address at which nothing listens. */
const findNoService = async () => `http://127.0.0.1:${await findFreePort()}`;

const failure = async (promise: Promise<unknown>): Promise<RegistryError> => {
  const error = await promise.then(
    (value) => new Error(`answered ${value}`),
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(RegistryError);
  return error as RegistryError;
};

describe("what is not an answer throws", () => {
  test.for<[string, Reply, Partial<RegistryError>]>([
    ["a problem", { status: 400, json: { ...OVERLOADED, status: 400 } }, { status: 400, isRetryable: false }],
    ["a proxy's page", { status: 502, text: "<html>" }, { status: 502, problem: null, isRetryable: true }],
    ["a page with status 200", { text: "<html>" }, { status: 200, isRetryable: false }],
    ["an empty body", { text: "" }, { status: 200, isRetryable: false }],
    ["null", { json: null }, { status: 200, isRetryable: false }],
    ["a number instead of true", { json: 1 }, { status: 200, isRetryable: false }],
    ["a string instead of true", { json: "true" }, { status: 200, isRetryable: false }],
    ["an answer without a block", { json: true, headers: {} }, { status: 200, isRetryable: false }],
    ["an answer that is late", { json: true, delayMs: 1_000 }, { status: null, isRetryable: true }],
    ["a body that stalls", { text: "tr", stalls: true }, { status: null, isRetryable: true }],
  ])("%s", async ([, reply, expected]) => {
    const { url } = await startService(reply);
    const registry = createClient({ url, retries: 0, ...((reply.delayMs || reply.stalls) && { timeoutMs: 500 }) });
    expect(await failure(registry.v2.checkAll(WALLETS))).toMatchObject(expected);
  });

  test("a redirect: it would take the key along", async () => {
    const other = await startService({ json: true });
    const { url } = await startService({ status: 307, text: "", headers: { Location: `${other.url}/registry` } });
    const error = await failure(createClient({ url, apiKey: "secret", retries: 0 }).v2.checkAll(WALLETS));
    expect(error.message).toContain("redirect");
    expect(other.asked).toEqual([]);
  });

  test("a list whose next page is elsewhere", async () => {
    for (const link of ["http://127.0.0.1:1/registry/v2/x", "@127.0.0.1:1/registry/v2/x", "//127.0.0.1:1/"]) {
      const { url } = await startService({ json: [], headers: { ...BLOCK, Link: `<${link}>; rel="next"` } });
      await failure(createClient({ url, apiKey: "secret", retries: 0 }).v2.delegations(WALLETS.vault).all());
    }
  });

  test("an answer at another block than the one that was asked for", async () => {
    for (const at of [{ block: 5n }, { block: "finalized" }, { minBlock: 10 }] as const) {
      const one = await startService({ json: true });
      await failure(createClient({ url: one.url }).v2.checkAll({ ...WALLETS, ...at }));
      const answers = [{ result: true }, { result: true }];
      const many = await startService({ json: { answers, blocks: { 1: { number: 9, final: false } } } });
      const [first] = await createClient({ url: many.url }).checks([QUESTION, QUESTION], at);
      expect(
        first?.error,
        JSON.stringify(at, (_, value) => String(value)),
      ).toMatchObject({ status: 200 });
      const list = await startService({ json: [] });
      await failure(createClient({ url: list.url }).v2.delegations(WALLETS.vault, at).all());
      const blocks = { 1: { number: 9, timestamp: 1, final: false } };
      const vaults = await startService({ json: { vaults: [], blocks, unanswered: [], next: null } });
      await failure(
        createClient({ url: vaults.url })
          .vaults(WALLETS.delegate, { ...at, chainId: 1 })
          .all(),
      );
    }
  });

  test.for<[string, unknown]>([
    ["null", null],
    ["an object without answers", {}],
    ["too few answers", { answers: [{ result: true }], blocks: { 1: { number: 9, final: true } } }],
    ["answers without blocks", { answers: [{ result: true }, { result: true }] }],
  ])("a body for many checks: %s", async ([, json]) => {
    const { url } = await startService({ json });
    const results = await createClient({ url }).checks([QUESTION, QUESTION]);
    for (const { error } of results) expect(error).toMatchObject({ status: 200, isRetryable: false });
    await failure(createClient({ url }).networks());
    await failure(createClient({ url }).vaults(WALLETS.delegate).all());
    await failure(createClient({ url }).v1.delegations(WALLETS.delegate).all());
  });

  test("a list with rounded numbers", async () => {
    const { url } = await startService({ json: [{ tokenId: 2 ** 60, amount: null }] });
    await failure(createClient({ url }).v2.delegations(WALLETS.vault).all());
  });

  test("no service", async () => {
    const error = await failure(createClient({ url: await findNoService(), retries: 0 }).v2.checkAll(WALLETS));
    expect(error).toMatchObject({ status: null, problem: null, isRetryable: true });
  });

  test("a balance that is rounded, negative or missing", async () => {
    for (const json of [1, "-1", "1e3", "", true]) {
      const { url } = await startService({ json });
      await failure(createClient({ url, retries: 0 }).v2.checkErc20({ ...WALLETS, contract: WALLETS.vault }));
    }
    const { url } = await startService({ json: `${2n ** 256n - 1n}` });
    const registry = createClient({ url });
    expect(await registry.v2.checkErc20({ ...WALLETS, contract: WALLETS.vault })).toBe(2n ** 256n - 1n);
  });
});

describe("temporary failures are retried", () => {
  test("after Retry-After, and as often as asked for", async () => {
    const refusal = { status: 503, json: OVERLOADED, headers: { "Retry-After": "1" } };
    const { url, asked } = await startService(refusal, { json: true });
    expect(await createClient({ url }).v2.checkAll(WALLETS)).toBe(true);
    const [first, second] = asked;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(1_000);

    const busy = await startService({ ...refusal, headers: {} });
    const error = await failure(createClient({ url: busy.url, retries: 2 }).v2.checkAll(WALLETS));
    expect(error).toMatchObject({ status: 503, problem: OVERLOADED, message: OVERLOADED.detail });
    expect(busy.asked).toHaveLength(3);
  });

  test("not for longer than a user waits", async () => {
    const { url, asked } = await startService({ status: 503, json: OVERLOADED, headers: { "Retry-After": "600" } });
    expect(await failure(createClient({ url }).v2.checkAll(WALLETS))).toMatchObject({ retryAfterMs: 600_000 });
    expect(asked).toHaveLength(1);
  });

  test("a bad question is not retried", async () => {
    const { url, asked } = await startService({ status: 400, json: { ...OVERLOADED, status: 400 } });
    await failure(createClient({ url }).v2.checkAll(WALLETS));
    expect(asked).toHaveLength(1);
  });
});

test("a signal ends waiting, sending and retrying with its own reason", async () => {
  const { url } = await startService({ status: 503, json: OVERLOADED, delayMs: 50 });
  const registry = createClient({ url, retries: 100 });
  for (const ms of [0, 20, 400]) {
    const abort = new AbortController();
    const asking = registry.v2.checkAll({ ...WALLETS, signal: abort.signal });
    setTimeout(() => abort.abort(new Error("enough")), ms);
    await expect(asking).rejects.toThrow("enough");
  }
  await expect(registry.v2.checkAll({ ...WALLETS, signal: AbortSignal.abort(new Error("before")) })).rejects.toThrow(
    "before",
  );
});

const answerAll = ({ body: { checks, block } }: Asked): Reply => ({
  json: {
    answers: checks.map(() => ({ result: true })),
    blocks: { 1: { number: 9, final: block === "finalized" }, 137: { number: 8, final: true } },
  },
});

describe("checks of the same tick", () => {
  test("go as one request, and each fails alone", async () => {
    const { url, asked } = await startService({
      json: {
        answers: [
          { result: true },
          { problem: { ...OVERLOADED, status: 400, detail: "no such network" } },
          { result: "7" },
        ],
        blocks: { 1: { number: 9, final: false } },
      },
    });
    const registry = createClient({ url });
    const [first, second, third] = await Promise.allSettled([
      registry.v2.checkAll(WALLETS),
      registry.v1.checkAll({ ...WALLETS, chainId: 10 }),
      registry.v2.checkErc20({ ...WALLETS, contract: WALLETS.vault, rights: "airdrop" }),
    ]);
    expect([first, third]).toMatchObject([{ value: true }, { value: 7n }]);
    expect(second).toMatchObject({ status: "rejected", reason: { status: 400, message: "no such network" } });
    expect(asked).toHaveLength(1);
    expect(asked[0]?.body.checks).toEqual([
      { registry: "v2", check: "all", ...WALLETS, chainId: 1 },
      { registry: "v1", check: "all", ...WALLETS, chainId: 10 },
      { registry: "v2", check: "erc20", ...WALLETS, contract: WALLETS.vault, rights: "airdrop", chainId: 1 },
    ]);
  });

  test("at different blocks go as requests of their own", async () => {
    const { url, asked } = await startService(answerAll);
    const registry = createClient({ url, apiKey: "key" });
    const both = [{}, { chainId: 137 }];
    await Promise.all([
      ...both.map((network) => registry.v2.checkAll({ ...WALLETS, ...network, block: "finalized" })),
      ...both.map((network) => registry.v2.checkAll({ ...WALLETS, ...network, block: "finalized" })),
      registry.v2.checkContract({ ...WALLETS, contract: WALLETS.vault }),
      registry.v2.checkAll(WALLETS),
    ]);
    expect(asked.map(({ body, key }) => [body.checks.length, body.block, key])).toEqual([
      [4, "finalized", "key"],
      [2, undefined, "key"],
    ]);
  });

  test("are sent one by one with batch: false", async () => {
    const { url, asked } = await startService({ json: true });
    const registry = createClient({ url, batch: false });
    await Promise.all([registry.v2.checkAll(WALLETS), registry.v2.checkAll(WALLETS)]);
    expect(asked.map(({ url }) => url.split("?")[0])).toEqual(["/registry/v2/check/all", "/registry/v2/check/all"]);
  });
});

test("a wallet that is no address is refused before it is sent", async () => {
  const { url, asked } = await startService({ json: [] });
  const registry = createClient({ url });
  for (const end of ["\n", "/", "/vaults?chainId=1#", "00"]) {
    const wallet = `${WALLETS.vault}${end}` as const;
    await expect(registry.vaults(wallet).all()).rejects.toThrow("is not an address");
    await expect(registry.v1.delegations(wallet).all()).rejects.toThrow("is not an address");
  }
  await expect(registry.vaults(WALLETS.vault, { chainId: [] }).all()).rejects.toThrow("empty list of networks");
  expect(asked).toEqual([]);
});

test("options that would have no effect are refused", () => {
  expect(() => createClient({ url: "http://127.0.0.1:8080", verify: true })).toThrow("set chain: readChain(…)");
  expect(() => createClient({ url: "http://127.0.0.1:8080", fallback: "chain" })).toThrow("set chain: readChain(…)");
});

test("an error in onWait is the error of the checks that wait", async () => {
  const problem = { ...OVERLOADED, detail: "The network is behind." };
  const { url } = await startService({ json: { answers: [{ problem }, { problem }], blocks: {} } });
  const onWait = () => {
    throw new Error("my own");
  };
  await expect(createClient({ url, onWait }).checks([QUESTION, QUESTION])).rejects.toThrow("my own");
});

test("a number that is not exact is refused before it is sent", async () => {
  const { url, asked } = await startService({ json: true });
  const registry = createClient({ url });
  const token = { ...WALLETS, contract: WALLETS.vault };
  await expect(registry.v2.checkErc721({ ...token, tokenId: 2 ** 53 })).rejects.toThrow("is not exact: use a bigint");
  expect(asked).toEqual([]);
  await registry.v2.checkErc721({ ...token, tokenId: 2n ** 256n - 1n });
  expect(asked[0]?.url).toContain(`tokenId=${2n ** 256n - 1n}`);
});
