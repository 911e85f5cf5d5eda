import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { keccak256, toHex } from "viem";
import { expect, onTestFinished, vi } from "vitest";
import { encodeHeader, type RpcBlock } from "../../api/proofs/block-header.ts";
import { createClient } from "../../client/src/index.ts";
import { type Proof, requireProofs, verifyProof } from "../../client/src/proof.ts";
import type { Check } from "../../client/src/questions.ts";
import { checksOf } from "../../registry/checks.ts";
import { formatQuestion, listQuestions, type WorldQuestion } from "../support/answers.ts";
import { type Api, startTestApi } from "../support/api.ts";
import { askChecks, postChecks } from "../support/bulk-checks.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { addKey } from "../support/keys.ts";
import { askNode, launchRpcProxy, type RpcRequest, type RpcResponse } from "../support/rpc-proxy.ts";
import { ROOT } from "../support/run.ts";
import { waitUntil } from "../support/setup.ts";
import { test as base } from "../support/test.ts";

// Answers with proofs. test/client/proof.property.test.ts attacks the proofs themselves.

const CHAIN = 8453;

const test = base
  .extend("chainOptions", { seed: 3, blocks: 60, overWebSocket: false })
  /** The node for proofs, which tests can make fail. */
  .extend("node", { scope: "file" }, async ({ indexed }, { onCleanup }) => {
    const node = await launchRpcProxy(indexed.subject.local.url);
    onCleanup(node.stop);
    return node;
  })
  .extend("databaseUrl", ({ indexed }) => indexed.databaseUrl)
  .extend("env", ({ node }) => ({ [`PROOF_RPC_URL_${CHAIN}`]: node.url }))
  /** Remembers nothing yet. */
  .extend("fresh", ({ databaseUrl, env }) => startTestApi({ databaseUrl, env }))
  /** Of each check, a question that is true now, and one that is false. */
  .extend("questions", { scope: "file" }, async ({ indexed: { subject } }) => {
    const all = listQuestions(subject.world);
    const newest = await subject.local.client.getBlockNumber();
    const answers = await subject.askRegistries(newest, all);
    const isTrue = (question: WorldQuestion) => !["false", "0"].includes(answers.get(formatQuestion(question)) ?? "");
    return [...checksOf("v1"), ...checksOf("v2")].flatMap(({ version, name }) => {
      const same = all.filter(({ registry, check }) => registry === version && check === name);
      const found = [same.find(isTrue), same.find((question) => !isTrue(question))];
      return found.flatMap((question) => question ?? []);
    });
  });

const pathOf = ({ registry, check, ...parameters }: WorldQuestion, more = ""): string => {
  const query = new URLSearchParams({ chainId: String(CHAIN), proof: "true" });
  for (const [name, value] of Object.entries(parameters)) query.append(name, String(value));
  return `/registry/${registry}/check/${check}?${query}${more}`;
};

/** Reads for which networks there are proofs. */
const readProofsOf = async (api: Api) => {
  const { networks } = (await (await api.get("/networks")).json()) as {
    networks: { chainId: number; proofs: { available: boolean; reason: string | null } }[];
  };
  return (chainId: number) => networks.find((network) => network.chainId === chainId)?.proofs;
};

/** Answers as a node whose blocks have headers that do not hash to their hashes. */
const changeHeader = (target: string) => async (request: RpcRequest) => {
  if (request.method !== "eth_getBlockByHash") return undefined;
  const answer = JSON.stringify(await askNode(target, request));
  return JSON.parse(answer.replace(/"extraData":"0x/, '"extraData":"0xab'));
};

const ask = async (api: Api, path: string) => {
  const response = await api.get(path);
  return { status: response.status, headers: response.headers, json: (await response.json()) as Proof & Problem };
};

type Problem = { type: string; detail: string };

/** A question as an item of a body. */
const toFields = (question: WorldQuestion) => ({
  ...question,
  ...("tokenId" in question && { tokenId: String(question.tokenId) }),
});

const fails = (method: string, answer: RpcResponse) => (request: RpcRequest) =>
  request.method === method ? answer : undefined;

test("every check has a proof, now, at a past block and at the newest final one", async ({
  api,
  indexed: { subject },
  questions,
}) => {
  expect(questions).toHaveLength(16);
  const newest = await subject.local.client.getBlockNumber();
  for (const question of questions) {
    for (const [more, asked] of [
      ["", newest],
      [`&block=${newest - 7n}`, newest - 7n],
      ["&block=finalized", null],
      [`&minBlock=${newest}`, newest],
    ] as const) {
      const { status, headers, json } = await ask(api, pathOf(question, more));
      expect(status, JSON.stringify(json)).toBe(200);
      const block = BigInt(headers.get("X-Answered-Block") ?? "");
      if (asked !== null) expect(block).toBe(asked);
      expect(headers.get("X-Answered-Block-Final")).toBe(String(block <= Number(headers.get("X-Finalized-Block"))));

      const { hash, timestamp } = await subject.local.client.getBlock({ blockNumber: block });
      const proven = verifyProof(json, { hash, chainId: CHAIN, check: { ...question, chainId: CHAIN } as Check });
      const [answer] = (await subject.askRegistries(block, [question])).values();
      expect(String(proven.value)).toBe(answer);
      expect(proven.block).toEqual({ number: block, hash, timestamp });
    }
  }
});

test("without proof=true, the answer is as ever, and no node is asked", async ({ fresh, node, questions }) => {
  const seen = node.seen.length;
  const answers: string[] = [];
  for (const question of questions) {
    const plain = await fresh.get(pathOf(question).replace("proof=true", "proof=false"));
    answers.push(await plain.text());
  }
  expect(node.seen.length).toBe(seen);
  const proofs = await Promise.all(questions.map((question) => ask(fresh, pathOf(question))));
  expect(answers).toEqual(proofs.map(({ json }) => String(json.result)));
});

test("many checks have their proofs in one request, all of one block", async ({ fresh, node, indexed, questions }) => {
  const newest = await indexed.subject.local.client.getBlockNumber();
  for (const block of [newest, newest - 5n, newest - 6n]) {
    node.seen.length = 0;
    const checks = questions.map((question, id) => ({ id, chainId: CHAIN, ...toFields(question) }));
    const bad = { registry: "v2", check: "all", to: "0x12" };
    const { answers, blocks } = await askChecks(fresh, {
      checks: [...checks, bad],
      proof: true,
      ...(block !== newest && { block: Number(block) }),
    });
    expect(blocks).toMatchObject({ [CHAIN]: { number: Number(block) } });
    expect(answers.at(-1)).toMatchObject({ problem: { status: 400 } });
    const { hash } = await indexed.subject.local.client.getBlock({ blockNumber: block });
    const expected = [...(await indexed.subject.askRegistries(block, questions)).values()];
    for (const [place, question] of questions.entries()) {
      const { id, result, proof } = answers[place] ?? {};
      const check = { ...question, chainId: CHAIN } as Check;
      const proven = verifyProof(proof as Proof, { hash, chainId: CHAIN, check });
      expect([id, String(result), String(proven.value)]).toEqual([place, expected[place], expected[place]]);
    }
    // The header, the slots of v2, and those of v1 in two steps; and for a past block the index's newest.
    const proofs = node.seen.filter(({ method }) => method === "eth_getProof");
    expect(proofs).toHaveLength(3);
    expect(node.seen.length - proofs.length).toBe(block === newest ? 1 : 2);
  }
});

test("more than 25 checks with proofs are a 400", async ({ api, questions }) => {
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  const checks = new Array(26).fill({ chainId: CHAIN, ...toFields(question) });
  const response = await postChecks(api, { checks, proof: true });
  expect([response.status, await response.json()]).toMatchObject([
    400,
    { errors: [{ parameter: "checks", message: "must have at most 25 entries with proof" }] },
  ]);
  expect((await postChecks(api, { checks: [], proof: "yes" })).status).toBe(400);
});

test("the same question at the same block asks the node once, also at the same time", async ({
  fresh,
  node,
  questions,
}) => {
  node.seen.length = 0;
  const asked = questions.slice(0, 4);
  const first = await Promise.all([...asked, ...asked].map((question) => ask(fresh, pathOf(question))));
  const { length } = node.seen;
  // One block, and at most two reads of slots for each question.
  expect(length).toBeLessThanOrEqual(1 + 2 * asked.length);
  const again = await Promise.all(asked.map((question) => ask(fresh, pathOf(question))));
  expect(node.seen.length).toBe(length);
  const proofs = first.map(({ json }) => json);
  expect(proofs).toEqual([...proofs.slice(0, 4), ...proofs.slice(0, 4)]);
  expect(again.map(({ json }) => json)).toEqual(proofs.slice(0, 4));
});

test("a failed read is not remembered, nor what is not proven", async ({ fresh, node, indexed, questions }) => {
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  node.intercept = async (request) => {
    if (request.method !== "eth_getProof") return undefined;
    const answer = JSON.stringify(await askNode(indexed.subject.local.url, request));
    return JSON.parse(answer.replace(/"proof":\["0x../, '"proof":["0x00'));
  };
  const refused = await Promise.all([0, 1, 2].map(() => ask(fresh, pathOf(question))));
  expect(refused.map(({ status }) => status)).toEqual([503, 503, 503]);
  node.intercept = () => undefined;
  expect((await ask(fresh, pathOf(question))).status).toBe(200);
});

test("the client asks for proofs and verifies them, by hashes that it is given", async ({
  api,
  indexed: { subject },
  questions,
}) => {
  const readHash = async (_: number, number: bigint) => {
    const { hash } = await subject.local.client.getBlock({ blockNumber: number });
    return hash;
  };
  const registry = createClient({ url: api.url, proofs: requireProofs(readHash) });
  const newest = await subject.local.client.getBlockNumber();
  for (const question of questions) {
    const { value, block } = await registry.check({ ...question, chainId: CHAIN } as Check, { block: newest - 3n });
    const [answer] = (await subject.askRegistries(newest - 3n, [question])).values();
    expect(String(value)).toBe(answer);
    expect(block?.number).toBe(newest - 3n);
  }
  const [question] = questions;
  const other = createClient({
    url: api.url,
    proofs: requireProofs((chainId, number) => readHash(chainId, number - 1n)),
  });
  const asked = other.check({ ...question, chainId: CHAIN } as Check);
  await expect(asked).rejects.toMatchObject({ name: "RegistryError", isRetryable: false });

  const failing = createClient({
    url: api.url,
    proofs: requireProofs((_, number) => {
      if (number === newest - 3n) throw new TypeError("block not found");
      return number === newest - 4n ? new Promise<never>(() => {}) : readHash(_, number);
    }),
  });
  const both = [question, { ...question, delegate: question?.vault }].map(
    (one) => ({ ...one, chainId: CHAIN }) as Check,
  );
  const results = await failing.checks(both, { block: newest - 3n });
  expect(results.map(({ error }) => [error?.isRetryable, error?.message])).toEqual(
    both.map(() => [true, "The trusted hash cannot be found: block not found"]),
  );
  const signal = AbortSignal.timeout(2_000);
  const endless = failing.check(both[0] as Check, { block: newest - 4n, signal });
  await expect(endless).rejects.toMatchObject({ name: "TimeoutError" });
});

test("the client takes no old block for the newest one", async ({ api, indexed: { subject }, questions }) => {
  const readHash = async (_: number, blockNumber: bigint) =>
    (await subject.local.client.getBlock({ blockNumber })).hash;
  const { timestamp } = await subject.local.client.getBlock();
  const [question] = questions;
  const ask = (seconds: number, more: { block?: bigint | "finalized" } = {}, maxAgeSeconds?: number) => {
    vi.useFakeTimers({ toFake: ["Date"], now: (Number(timestamp) + seconds) * 1000 });
    const registry = createClient({ url: api.url, proofs: requireProofs(readHash, { maxAgeSeconds }) });
    return registry.check({ ...question, chainId: CHAIN } as Check, more).finally(() => vi.useRealTimers());
  };
  await expect(ask(3_600)).resolves.toMatchObject({ value: true });
  await expect(ask(3_601)).rejects.toMatchObject({
    message: expect.stringMatching(/is 3601 seconds old/),
    isRetryable: true,
  });
  await expect(ask(3_601, { block: "finalized" })).rejects.toThrow("seconds old");
  await expect(ask(3_601, {}, 4_000)).resolves.toMatchObject({ value: true });
  await expect(ask(3_601, { block: await subject.local.client.getBlockNumber() })).resolves.toMatchObject({
    value: true,
  });
});

test("a node that fails, is behind, lacks the state or forges it gives a 503, never a proof", async ({
  fresh: api,
  node,
  questions,
  indexed,
}) => {
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  const refused = async (why: string) => {
    const { status, headers, json } = await ask(api, pathOf(question));
    expect({ status, type: json.type }, why).toEqual({ status: 503, type: "/docs#problem-proof-unavailable" });
    expect(headers.get("Retry-After"), why).toBe("10");
    expect(json.detail).not.toContain(node.url);
  };
  const change = (method: string, edit: (text: string) => string) => {
    node.intercept = async (request) => {
      if (request.method !== method) return undefined;
      const answer = JSON.stringify(await askNode(indexed.subject.local.url, request));
      expect(edit(answer)).not.toBe(answer);
      return JSON.parse(edit(answer));
    };
  };
  // Before the block is known.
  change("eth_getBlockByHash", (text) => text.replace(/"hash":"0x../, '"hash":"0xff'));
  await refused("another block");
  node.intercept = fails("eth_getBlockByHash", { result: null });
  await refused("behind");
  const missing = { error: { code: -32_000, message: "missing trie node" } };
  for (const [why, intercept] of [
    ["no state", fails("eth_getProof", missing)],
    ["no such method", fails("eth_getProof", { error: { code: -32_601, message: "not found" } })],
    ["no response", fails("eth_getProof", { hangsUp: true })],
    ["no JSON", fails("eth_getProof", { status: 502, body: "<html>" })],
    ["no proof", fails("eth_getProof", { result: {} })],
    ["empty", fails("eth_getProof", { result: { accountProof: [], storageProof: [] } })],
  ] as const) {
    node.intercept = intercept;
    await refused(why);
  }
  change("eth_getProof", (text) => text.replace(/"proof":\["0x../, '"proof":["0x00'));
  await refused("a forged slot");
  change("eth_getProof", (text) => text.replace(/"accountProof":\["0x../, '"accountProof":["0xff'));
  await refused("a forged node");
  // Some nodes have another value beside a right proof.
  change("eth_getProof", (text) => text.replace(/"value":"0x[0-9a-f]+"/, '"value":"0x0"'));
  const { status, json } = await ask(api, pathOf(question));
  expect([status, json.result]).toEqual([200, true]);
});

test("a block before the registry is a 400 that says so", async ({ fresh, node, questions, indexed: { subject } }) => {
  const block = (await subject.local.client.getBlockNumber()) - 6n;
  node.intercept = async (request) => {
    if (request.method === "eth_getProof") return { result: { accountProof: [], storageProof: [] } };
    if (request.method !== "eth_getBlockByNumber" || request.params[0] !== toHex(block)) return undefined;
    const { result } = (await askNode(subject.local.url, request)) as { result: RpcBlock };
    // A state without accounts.
    const empty = { ...result, stateRoot: keccak256("0x80") };
    return { result: { ...empty, hash: keccak256(encodeHeader(empty)) } };
  };
  for (const question of [questions.at(0), questions.at(-1)]) {
    if (!question) throw new Error("There are no questions.");
    const { status, json } = await ask(fresh, pathOf(question, `&block=${block}`));
    expect({ status, ...json }).toMatchObject({
      status: 400,
      type: "/docs#problem-proof-unavailable",
      detail: expect.stringContaining(`block ${block} is older than the registry ${question.registry}`),
    });
  }
  node.intercept = () => undefined;
});

test("the second node proves a past block while the first one hangs", async ({
  node,
  databaseUrl,
  questions,
  indexed,
}) => {
  const hanging = await launchRpcProxy(indexed.subject.local.url);
  hanging.intercept = () => ({ stalls: true });
  const api = await startTestApi({ databaseUrl, env: { [`PROOF_RPC_URL_${CHAIN}`]: `${hanging.url},${node.url}` } });
  const block = (await indexed.subject.local.client.getBlockNumber()) - 5n;
  const question = questions.find(({ registry }) => registry === "v1");
  if (!question) throw new Error("There is no such question.");
  expect((await ask(api, pathOf(question, `&block=${block}`))).status).toBe(200);
  expect(hanging.seen.length).toBeGreaterThan(0);
  hanging.stop();
});

test("a network whose headers do not hash to their hash has no proofs, until they do", async ({
  fresh: api,
  node,
  questions,
  indexed,
}) => {
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  expect((await readProofsOf(api))(CHAIN)).toEqual({ available: true, reason: null });
  node.intercept = changeHeader(indexed.subject.local.url);
  const { status, json } = await ask(api, pathOf(question));
  expect({ status, type: json.type }).toEqual({ status: 400, type: "/docs#problem-proof-unavailable" });
  node.intercept = () => undefined;
  expect((await readProofsOf(api))(CHAIN)).toEqual({ available: false, reason: expect.stringContaining("headers") });
  expect((await ask(api, pathOf(question))).status).toBe(200);
  const known = await readProofsOf(api);
  expect(known(CHAIN)?.available).toBe(true);
  expect(known(1)).toEqual({ available: false, reason: expect.stringContaining("no node") });
  expect(known(324)).toEqual({ available: false, reason: expect.stringContaining("Merkle") });
});

test("a node that is busy when asked for a header is no network of another form", async ({
  databaseUrl,
  questions,
  indexed: { subject },
}) => {
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  const other = await launchRpcProxy(subject.local.url);
  const plain = await launchRpcProxy(subject.local.url);
  const api = await startTestApi({ databaseUrl, env: { [`PROOF_RPC_URL_${CHAIN}`]: `${other.url},${plain.url}` } });
  const changed = changeHeader(subject.local.url);
  const answerHeader = (answer: RpcResponse) => async (request: RpcRequest) =>
    request.method === "debug_getRawHeader" ? answer : changed(request);
  const unknown = { error: { code: -32_601, message: "the method does not exist" } };
  for (const [first, second, status] of [
    [{ error: { code: -32_005, message: "limit exceeded" } }, unknown, 503],
    [unknown, { error: { code: -32_007, message: "request limit reached" } }, 503],
    [{ status: 429, body: JSON.stringify({ error: { code: 429, message: "too many" } }) }, unknown, 503],
    [{ stalls: true }, unknown, 503],
    [unknown, unknown, 400],
  ] as const) {
    other.intercept = answerHeader(first);
    plain.intercept = answerHeader(second);
    const { status: answered, json } = await ask(api, pathOf(question));
    expect([answered, json.type], JSON.stringify([first, second])).toEqual([status, "/docs#problem-proof-unavailable"]);
    expect((await readProofsOf(api))(CHAIN)?.available).toBe(status === 503);
  }
  other.stop();
  plain.stop();
});

test("a past block is read from nodes only whose chain is the index's", async ({
  databaseUrl,
  questions,
  indexed: { subject },
}) => {
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  const other = await launchRpcProxy(subject.local.url);
  const api = await startTestApi({ databaseUrl, env: { [`PROOF_RPC_URL_${CHAIN}`]: other.url } });
  const newest = await subject.local.client.getBlockNumber();
  const before = await askNode(subject.local.url, {
    method: "eth_getBlockByNumber",
    params: [toHex(newest - 1n), false],
  });
  // It still returns the index's block by its hash.
  other.intercept = ({ method, params }) =>
    method === "eth_getBlockByNumber" && params[0] === toHex(newest) ? before : undefined;
  const past = pathOf(question, `&block=${newest - 2n}`);
  expect((await ask(api, past)).status).toBe(503);
  other.intercept = () => undefined;
  expect((await ask(api, past)).status).toBe(200);
  other.stop();
});

test("without a node for proofs the problem says so, and the indexer's is not asked", async ({ samples }) => {
  const response = await samples.get(
    `/registry/v2/check/all?to=0x${"1".repeat(40)}&from=0x${"2".repeat(40)}&proof=true`,
  );
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({
    type: "/docs#problem-proof-unavailable",
    detail: expect.stringContaining("no node"),
  });
});

test("a second node proves what the first does not", async ({ node, databaseUrl, questions, indexed }) => {
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  const broken = await launchRpcProxy(indexed.subject.local.url);
  broken.intercept = () => ({ status: 500 });
  const api = await startTestApi({ databaseUrl, env: { [`PROOF_RPC_URL_${CHAIN}`]: `${broken.url},${node.url}` } });
  expect((await ask(api, pathOf(question))).status).toBe(200);
  expect(broken.seen.length).toBeGreaterThan(0);
  broken.stop();
});

test("nodes that disagree about a past block prove nothing at it", async ({
  node,
  databaseUrl,
  questions,
  indexed: { subject },
}) => {
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  const other = await launchRpcProxy(subject.local.url);
  const api = await startTestApi({ databaseUrl, env: { [`PROOF_RPC_URL_${CHAIN}`]: `${other.url},${node.url}` } });
  const block = (await subject.local.client.getBlockNumber()) - 4n;
  // A whole block, with its header: of another past.
  const before = await askNode(subject.local.url, {
    method: "eth_getBlockByNumber",
    params: [toHex(block - 1n), false],
  });
  other.intercept = ({ method, params }) =>
    method === "eth_getBlockByNumber" && params[0] === toHex(block) ? before : undefined;
  const { status, json } = await ask(api, pathOf(question, `&block=${block}`));
  expect({ status, type: json.type }).toEqual({ status: 503, type: "/docs#problem-proof-unavailable" });
  other.intercept = () => ({ status: 500 });
  expect((await ask(api, pathOf(question, `&block=${block}`))).status).toBe(200);
  other.stop();
});

test("the documented airdrop keeps a proof of each claim, and trusts no provider alone", async ({
  fresh,
  indexed: { subject, database },
  questions,
}) => {
  const [, example = ""] = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(ROOT, "docs/proofs.md"), "utf8")) ?? [];
  const block = (await subject.local.client.getBlockNumber()) - 3n;
  const claims = questions.slice(0, 4).map(({ delegate, vault }) => ({ delegate, vault }));
  const { key } = await addKey(database);
  const other = await launchRpcProxy(subject.local.url);
  const values = {
    API: fresh.url,
    PROVIDERS: [subject.local.url, other.url],
    KEY: key,
    CLAIMS: claims,
  };
  let code = example
    .replace("delegation-registry-client/proof", join(ROOT, "client/src/proof.ts"))
    .replace(/const SNAPSHOT = .*/, `const SNAPSHOT = { chainId: ${CHAIN}, block: ${block}n };`);
  for (const [name, value] of Object.entries(values)) {
    code = code.replace(new RegExp(`(const ${name}\\b.*?) = .*;`), `const ${name} = ${JSON.stringify(value)} as any;`);
  }
  // Beside the packages.
  mkdirSync(join(ROOT, ".data"), { recursive: true });
  const folder = mkdtempSync(join(ROOT, ".data/airdrop-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "airdrop.mts"), code);
  const run = () => promisify(execFile)(process.execPath, ["--import", "tsx", "airdrop.mts"], { cwd: folder });
  const { stdout } = await run();
  const { hash } = await subject.local.client.getBlock({ blockNumber: block });
  expect(stdout).toContain(`The hash to publish: ${hash}`);
  for (const { delegate, vault } of claims) {
    const file = readFileSync(join(folder, `claims/${delegate}-${vault}.json`), "utf8");
    const { value } = verifyProof(JSON.parse(file), { hash, chainId: CHAIN });
    expect(stdout).toContain(`${delegate} ${vault} ${value ? "pay" : "refuse"}`);
  }
  // A provider that names another past.
  other.intercept = ({ method }) =>
    method === "eth_getBlockByNumber"
      ? askNode(subject.local.url, { method, params: [toHex(block - 1n), false] })
      : undefined;
  await expect(run()).rejects.toMatchObject({ stderr: expect.stringContaining("The providers disagree") });
  other.stop();
});

test("a proof is ten requests", async ({ node, databaseUrl, questions }) => {
  const env = { [`PROOF_RPC_URL_${CHAIN}`]: node.url, RATE_LIMIT_REQUESTS: "25" };
  const api = await startTestApi({ databaseUrl, env, now: () => 0 });
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  const left = async () => {
    const { status, headers } = await ask(api, pathOf(question));
    return [status, headers.get("RateLimit")?.match(/r=(\d+)/)?.[1]];
  };
  expect(await left()).toEqual([200, "15"]);
  expect(await left()).toEqual([200, "5"]);
  expect((await left())[0]).toBe(429);
});

test("an answer that the proof contradicts is not given", async ({ node, databaseUrl, indexed, questions }) => {
  const api = await startTestApi({ databaseUrl, env: { [`PROOF_RPC_URL_${CHAIN}`]: node.url } });
  const question = questions.find(({ registry, check }) => registry === "v2" && check === "all");
  if (!question) throw new Error("There is no such question.");
  expect((await ask(api, pathOf(question))).json.result).toBe(true);
  // A row that a provider lost.
  const schema = await readServedSchema(indexed.database);
  await indexed.database.query("set session_replication_role = replica");
  const { rowCount } = await indexed.database.query(
    `delete from "${schema}".delegation_change where registry = 'v2' and vault = $1 and delegate = $2 and type = 'ALL'`,
    [question.vault.toLowerCase(), question.delegate.toLowerCase()],
  );
  await indexed.database.query("reset session_replication_role");
  expect(rowCount).toBeGreaterThan(0);
  const { status, json } = await ask(api, pathOf(question));
  expect({ status, type: json.type }).toEqual({ status: 503, type: "/docs#problem-index-differs" });
  expect(api.output()).toContain("The index differs from a proof");
  expect(await api.metrics()).toContain('delegation_registry_proofs_total{outcome="differs"} 1');
  const handedOver = "select chain_id::int, wallet from service.contradicted";
  await waitUntil(
    "the indexer is told",
    async () => (await indexed.database.query(handedOver)).rows,
    30,
    (rows) => rows.some(({ chain_id, wallet }) => chain_id === CHAIN && wallet === question.vault.toLowerCase()),
  );
});
