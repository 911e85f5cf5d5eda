import {
  type Address,
  concatHex,
  encodeAbiParameters,
  type Hex,
  numberToHex,
  parseAbiParameters,
  serializeErc6492Signature,
  size,
  stringToHex,
} from "viem";
import type { PrivateKeyAccount } from "viem/accounts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LocalChain } from "../../../local/chain.ts";
import { compileContracts } from "../../../local/compile-contracts.ts";
import { type Api, startTestApi } from "../../support/api.ts";
import { createWallet, Visitor } from "../../support/developers.ts";
import { startHttp } from "../../support/http.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { createDatabase, launchChain, waitUntil } from "../../support/setup.ts";

const LOOKUP_WALLET: Address = "0x100Cb9000000000000000000000000000000aaaA";

let chain: LocalChain;
let databaseUrl: string;
beforeAll(async () => {
  const code = await compileContracts();
  chain = await launchChain(1);
  await chain.client.setCode({ address: LOOKUP_WALLET, bytecode: code.LookupWallet });
  databaseUrl = await createDatabase();
});
afterAll(() => chain?.stop());

const signIn = async (api: Pick<Api, "url" | "port">, address: Address, signature: Hex) => {
  const visitor = new Visitor(api);
  return visitor.finish(await visitor.begin(address), signature);
};

/** Wraps a signature with an authorization to delegate (ERC-8010). */
const wrapErc8010 = async (owner: PrivateKeyAccount, delegation: Address, signature: Hex): Promise<Hex> => {
  const { r, s, yParity = 0 } = await owner.signAuthorization({ address: delegation, chainId: 1, nonce: 0 });
  const suffix = encodeAbiParameters(
    parseAbiParameters("(uint256, address, uint256, uint8, uint256, uint256), address, bytes"),
    [[1n, delegation, 0n, yParity, BigInt(r), BigInt(s)], delegation, "0x"],
  );
  return concatHex([signature, suffix, numberToHex(size(suffix), { size: 32 }), `0x${"8010".repeat(16)}`]);
};

describe("an off-chain lookup", () => {
  test("of a contract wallet is not followed (ERC-1271)", async () => {
    const inside = await startHttp((_, response) => response.end());
    const api = await startTestApi({ databaseUrl, env: { PONDER_RPC_URL_1: chain.url } });
    const answer = await signIn(api, LOOKUP_WALLET, stringToHex(`${inside.url}/secret`));
    expect(answer).toMatchObject({ status: 403, json: { type: "/docs#problem-sign-in-refused" } });
    expect(inside.seen).toEqual([]);
  });

  test("of an account that delegates to a contract is not followed (ERC-8010), and costs no request", async () => {
    const inside = await startHttp((_, response) => response.end());
    const rpc = await startRpcProxy(chain.url);
    const api = await startTestApi({ databaseUrl, env: { PONDER_RPC_URL_1: rpc.url } });
    const owner = createWallet();
    await chain.client.setCode({ address: owner.address, bytecode: concatHex(["0xef0100", LOOKUP_WALLET]) });
    const signature = await wrapErc8010(owner, LOOKUP_WALLET, stringToHex(`${inside.url}/secret`));
    const answer = await signIn(api, owner.address, signature);
    expect(inside.seen).toEqual([]);
    expect(rpc.seen).toEqual([]);
    expect(answer).toMatchObject({ status: 403, json: { detail: expect.stringContaining("ERC-8010") } });
  });
});

describe("a sign-in with an ERC-6492 signature", () => {
  test("never makes its call for a wallet that is deployed", async () => {
    const rpc = await startRpcProxy(chain.url);
    const api = await startTestApi({ databaseUrl, env: { PONDER_RPC_URL_1: rpc.url } });
    const signature = serializeErc6492Signature({ address: LOOKUP_WALLET, data: "0x12345678", signature: "0xabcd" });
    expect(await signIn(api, LOOKUP_WALLET, signature)).toMatchObject({ status: 403 });
    const calls = rpc.seen.filter(({ method }) => method === "eth_call");
    const to = LOOKUP_WALLET.toLowerCase();
    expect(calls.map(({ params: [call] }) => call)).toEqual([{ to, data: expect.any(String) }]);
    expect(JSON.stringify(calls)).not.toContain("12345678");
  });

  test("is refused if it is malformed, and costs no request", async () => {
    const rpc = await startRpcProxy(chain.url);
    const api = await startTestApi({ databaseUrl, env: { PONDER_RPC_URL_1: rpc.url } });
    const answer = await signIn(api, LOOKUP_WALLET, `0x00${"6492".repeat(16)}`);
    expect(answer).toMatchObject({ status: 403, json: { detail: expect.stringContaining("form of signature") } });
    expect(rpc.seen).toEqual([]);
  });
});

describe("a sign-in takes little processor time", () => {
  /** An ERC-6492 signature whose call and inner signature are the same 14 kB. */
  const words = [1, 96, 96, 14_000].map((word) => word.toString(16).padStart(64, "0"));
  const OVERLAPPING: Hex = `0x${words.join("")}${"ab".repeat(14_000)}${"6492".repeat(16)}`;

  test.for<[string, number, (message: string) => { message: string; signature: Hex }]>([
    ["with 6,500 fields in its message", 400, () => ({ message: "URI: ".repeat(6_500), signature: "0x00" })],
    ["with as many fields as are read", 403, () => ({ message: "URI: ".repeat(400), signature: "0x00" })],
    ["with a long wrapped signature", 403, (message) => ({ message, signature: OVERLAPPING })],
    ["with a long signature", 403, (message) => ({ message, signature: `0x${"f".repeat(30_000)}` })],
  ])("%s", async ([, status, change]) => {
    const rpc = await startRpcProxy(chain.url);
    const api = await startTestApi({ databaseUrl, env: { PONDER_RPC_URL_1: rpc.url } });
    const attempts: { visitor: Visitor; message: string; signature: Hex }[] = [];
    for (let number = 0; number < 20; number++) {
      const visitor = new Visitor(api);
      attempts.push({ visitor, ...change(await visitor.begin(LOOKUP_WALLET)) });
    }
    const before = process.cpuUsage();
    for (const { visitor, message, signature } of attempts) {
      expect(await visitor.finish(message, signature)).toMatchObject({ status });
    }
    const { user, system } = process.cpuUsage(before);
    // Microseconds, of the client too. viem's parser took 300,000 for each of the first.
    expect((user + system) / attempts.length).toBeLessThan(50_000);
  });
});

describe("sign-ins of contract wallets", () => {
  const SITE = "https://api.example";
  /** Starts an API behind a proxy, so that sign-ins come from any address. */
  const startBehindProxy = async (url: string, now?: () => number, env: NodeJS.ProcessEnv = {}) => {
    const settings = { PONDER_RPC_URL_1: url, PUBLIC_URL: SITE, TRUST_PROXY: "127.0.0.1", ...env };
    const api = await startTestApi({ databaseUrl, env: settings, ...(now && { now }) });
    return async (client: string, wallet: Address = createWallet().address) => {
      const visitor = new Visitor(api);
      const headers = { Origin: SITE, "X-Forwarded-For": client };
      return visitor.finish(await visitor.begin(wallet, 1, headers), "0x00", headers);
    };
  };

  test("that fail are not sent to the RPC again for 10 s, if client and wallet are the same", async () => {
    let time = 0;
    const rpc = await startRpcProxy(chain.url);
    const attempt = await startBehindProxy(rpc.url, () => time);
    expect(await attempt("192.0.2.1", LOOKUP_WALLET)).toMatchObject({ status: 403 });
    const requests = rpc.seen.length;
    expect(requests).toBe(3);
    for (let repeat = 0; repeat < 20; repeat++) {
      expect(await attempt("192.0.2.1", LOOKUP_WALLET)).toMatchObject({ status: 403 });
    }
    expect(rpc.seen).toHaveLength(requests);
    // Nobody can lock the owner of a wallet out.
    expect(await attempt("192.0.2.2", LOOKUP_WALLET)).toMatchObject({ status: 403 });
    expect(rpc.seen).toHaveLength(2 * requests);
    time += 10_000;
    await attempt("192.0.2.1", LOOKUP_WALLET);
    expect(rpc.seen).toHaveLength(3 * requests);
  });

  test("are limited for a client, and for all clients, to a number in a minute", async () => {
    let time = 0;
    const rpc = await startRpcProxy(chain.url);
    const attempt = await startBehindProxy(rpc.url, () => time);
    const statuses: number[] = [];
    for (let number = 0; number < 10; number++) statuses.push((await attempt("192.0.2.1")).status);
    expect(statuses).toEqual([...Array(6).fill(403), ...Array(4).fill(429)]);
    const others: number[] = [];
    for (let number = 0; number < 60; number++) others.push((await attempt(`198.51.100.${number}`)).status);
    expect(others).toEqual([...Array(54).fill(403), ...Array(6).fill(503)]);
    // Each takes two requests: the chain's id and the code. The wallets have no code to call.
    expect(rpc.seen).toHaveLength(120);
    expect(await attempt("192.0.2.200")).toMatchObject({
      status: 503,
      headers: { "retry-after": "60" },
      json: { type: "/docs#problem-overloaded", detail: expect.stringContaining("Try again in 60 s") },
    });
    time += 60_000;
    expect((await attempt("192.0.2.1")).status).toBe(403);
  });

  test("that stall hold at most eight places, one for each client", async () => {
    const rpc = await startRpcProxy(chain.url);
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    rpc.intercept = async () => {
      await released;
      return undefined;
    };
    const attempt = await startBehindProxy(rpc.url);
    const stalled = Array.from({ length: 8 }, (_, number) => attempt(`192.0.2.${number}`));
    await waitUntil("all are in flight", () => rpc.seen.length === 16);
    expect(await attempt("192.0.2.1")).toMatchObject({ status: 429 });
    expect(await attempt("192.0.2.100")).toMatchObject({ status: 503, json: { type: "/docs#problem-overloaded" } });
    release();
    for (const answer of await Promise.all(stalled)) expect(answer).toMatchObject({ status: 403 });
    expect(await attempt("192.0.2.100")).toMatchObject({ status: 403 });
  });

  test("use SIGN_IN_RPC_URL_<chainId> instead of the indexer's RPC", async () => {
    const [indexers, own] = [await startRpcProxy(chain.url), await startRpcProxy(chain.url)];
    const attempt = await startBehindProxy(indexers.url, undefined, { SIGN_IN_RPC_URL_1: own.url });
    expect(await attempt("192.0.2.1", LOOKUP_WALLET)).toMatchObject({ status: 403 });
    expect([indexers.seen.length, own.seen.length]).toEqual([0, 3]);
  });

  test("use the next RPC if one is down or on another chain", async () => {
    const [wrong, right] = [await startRpcProxy(chain.url), await startRpcProxy(chain.url)];
    wrong.intercept = ({ method }) => (method === "eth_chainId" ? { result: "0x89" } : undefined);
    const attempt = await startBehindProxy(`http://127.0.0.1:9,${wrong.url},${right.url}`);
    expect(await attempt("192.0.2.1", LOOKUP_WALLET)).toMatchObject({ status: 403 });
    expect(wrong.seen.some(({ method }) => method === "eth_call")).toBe(false);
    expect(right.seen.some(({ method }) => method === "eth_call")).toBe(true);
  });
});

describe("an RPC", () => {
  test("that redirects is not followed", async () => {
    const inside = await startHttp((_, response) => response.end());
    const rpc = await startHttp((_, response) => response.writeHead(307, { Location: `${inside.url}/secret` }).end());
    const api = await startTestApi({ databaseUrl, env: { PONDER_RPC_URL_1: rpc.url } });
    expect(await signIn(api, createWallet().address, "0x00")).toMatchObject({ status: 503 });
    expect(inside.seen).toEqual([]);
  });
});
