import { execFileSync } from "node:child_process";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isUp } from "../../../process/is-up.ts";
import { CHECK, createSampleDatabase, FRESH_FOR_A_DAY, VAULT } from "../../support/api.ts";
import { createHost, type Host, readCompose, sendRequest } from "../../support/compose.ts";
import { describeWithPrograms } from "../../support/programs.ts";
import { waitUntil } from "../../support/setup.ts";

// Clients that hold connections to the proxy of docker-compose.yml. Each address is a client.

const BODIES = 300;
/** This process needs a file descriptor for each connection, and some for itself. */
const HEADS = Math.min(5_000, Number(execFileSync("sh", ["-c", "ulimit -n"]).toString()) - BODIES - 1_000);
if (HEADS < 1_000) throw new Error("Allow this process 2,300 file descriptors: ulimit -n 8192.");
const AT_ONCE = 100;
/** Time limits of ops/proxy/nginx.conf and of the API, and the tolerance for a busy machine. */
const HEADERS_S = 10;
const BODY_S = 5;
const LATE_S = 4;

const HEAD = `GET ${CHECK} HTTP/1.1\r\nHost: api.example\r\n`;
/** A request whose body the API waits for. */
const STALLED_BODY = `POST /developers/api/session HTTP/1.1\r\nHost: api.example\r\nOrigin: https://api.example\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`;
/** Enough for the bodies of one address: the API answers requests beyond the limit without their bodies. */
const LIMIT = 1_000;

/** A proxy in front of this one. */
const FRONT_PROXY = "127.0.10.41";

type Held = { socket: Socket; received: () => string; closedAfter: Promise<number> };

describeWithPrograms(["docker-compose", "python3", "nginx", "redis-server"], "the proxy of docker-compose.yml", () => {
  let host: Host;

  beforeAll(async () => {
    const databaseUrl = await createSampleDatabase();
    const env = { ...FRESH_FOR_A_DAY, PUBLIC_URL: "https://api.example", RATE_LIMIT_REQUESTS: String(LIMIT) };
    host = await createHost({
      compose: readCompose({ env }),
      databaseUrl: () => databaseUrl,
      trustedConf: `set_real_ip_from ${FRONT_PROXY};`,
    });
    for (const name of ["valkey", "api", "proxy"]) await host.start(name);
    await waitUntil("the proxy answers", () => isUp(`${host.url}/health`), 60);
  }, 300_000);
  afterAll(() => host?.stop());

  /** Opens a connection from an address, and sends a text. */
  const hold = (text: string, from: string): Promise<Held> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(host.url);
      const startedAt = performance.now();
      let received = "";
      const socket = connect({ host: hostname, port: Number(port), localAddress: from });
      const closedAfter = new Promise<number>((closed) => {
        socket.on("close", () => closed((performance.now() - startedAt) / 1000));
      });
      socket.on("data", (data) => {
        received += data;
      });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.on("error", () => {});
        socket.write(text, () => resolve({ socket, received: () => received, closedAfter }));
      });
    });

  /** Opens connections from several addresses, in groups that fit the accept queue. */
  const holdMany = async (text: string, count: number, addresses: readonly string[]): Promise<Held[]> => {
    const held: Held[] = [];
    while (held.length < count) {
      const next = Math.min(AT_ONCE, count - held.length);
      const opened = Array.from({ length: next }, (_, index) => hold(text, addresses[index % addresses.length] ?? ""));
      held.push(...(await Promise.all(opened)));
    }
    return held;
  };

  const findLatest = async (held: readonly Held[]) =>
    Math.max(...(await Promise.all(held.map(({ closedAfter }) => closedAfter))));

  test(`answers a question within a second beside ${BODIES} stalled bodies and ${HEADS} half-sent heads, and ends these`, async () => {
    const heads = await holdMany(HEAD, HEADS, ["127.0.10.4", "127.0.10.5", "127.0.10.6", "127.0.10.7"]);
    const bodies = await holdMany(STALLED_BODY, BODIES, ["127.0.10.1", "127.0.10.2", "127.0.10.3"]);
    const startedAt = performance.now();
    for (let index = 0; index < 10; index++) {
      const askedAt = performance.now();
      expect(await sendRequest(host.url, CHECK, { from: "127.0.10.9" })).toMatchObject({ status: 200, body: "true" });
      expect(performance.now() - askedAt).toBeLessThan(1_000);
    }
    // Opening them took a while: some may have ended, most must not.
    const isWaiting = ({ socket, received }: Held) => !socket.destroyed && received() === "";
    expect(heads.filter(isWaiting).length).toBeGreaterThan(HEADS / 2);
    expect(bodies.filter(isWaiting).length).toBeGreaterThan(BODIES / 2);
    await Promise.all([findLatest(heads), findLatest(bodies)]);
    expect((performance.now() - startedAt) / 1000).toBeLessThan(HEADERS_S + LATE_S);
  });

  test("ends heads and bodies that arrive a byte at a time as soon as the API itself would", async () => {
    const heads = await holdMany(`${HEAD}X-Slow: `, 20, ["127.0.10.11"]);
    const bodies = await holdMany(STALLED_BODY, 20, ["127.0.10.12"]);
    const timer = setInterval(() => {
      for (const { socket } of [...heads, ...bodies]) if (socket.writable) socket.write("x");
    }, 500);
    expect(await findLatest(heads)).toBeLessThan(HEADERS_S + LATE_S);
    expect(await findLatest(bodies)).toBeLessThan(BODY_S + LATE_S);
    clearInterval(timer);
  });

  test("refuses requests of an address that has 256 in flight, and none of another", async () => {
    const held = await holdMany(STALLED_BODY, BODIES, ["127.0.10.21"]);
    const countRefused = async () =>
      held.filter(({ received }) => received().includes("256 requests in flight")).length;
    await waitUntil("the others are refused", countRefused, BODY_S, (refused) => refused >= BODIES - 256);
    await sleep(500);
    expect(await countRefused()).toBe(BODIES - 256);
    expect(await sendRequest(host.url, CHECK, { from: "127.0.10.22" })).toMatchObject({ status: 200 });
    for (const { socket } of held) socket.destroy();
  });

  test("takes the client's address from a proxy that trusted.conf names, and from no other", async () => {
    const ask = (from: string, client: string) =>
      sendRequest(host.url, CHECK, { from, headers: { "X-Forwarded-For": client } });
    const remaining = async (from: string, client: string) =>
      Number(/r=(\d+)/.exec(String((await ask(from, client)).headers.ratelimit))?.[1]);
    expect(await remaining(FRONT_PROXY, "203.0.113.1")).toBe(LIMIT - 1);
    expect(await remaining(FRONT_PROXY, "198.51.100.9, 203.0.113.1")).toBe(LIMIT - 2);
    expect(await remaining(FRONT_PROXY, "203.0.113.2")).toBe(LIMIT - 1);
    expect(await remaining("127.0.10.42", "203.0.113.3")).toBe(LIMIT - 1);
    expect(await remaining("127.0.10.42", "203.0.113.4")).toBe(LIMIT - 2);
  });

  test("refuses large heads and bodies with problem documents, and passes on the API's own 414", async () => {
    const url = `/registry/v2/${VAULT}?x=`;
    const from = "127.0.10.31";
    const problem = { "content-type": "application/problem+json", "access-control-allow-origin": "*" };
    expect(await sendRequest(host.url, `${url}${"x".repeat(5_000)}`, { from })).toMatchObject({ status: 414 });
    const longLine = await sendRequest(host.url, `${url}${"x".repeat(9_000)}`, { from });
    expect(longLine).toMatchObject({
      status: 431,
      headers: problem,
      body: expect.stringContaining("headers-too-large"),
    });
    const headers = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`X-${index}`, "x".repeat(500)]));
    expect(await sendRequest(host.url, url, { from, headers })).toMatchObject({ status: 431, headers: problem });
    const [large] = await holdMany(STALLED_BODY.replace("1000", "1100000"), 1, [from]);
    await waitUntil("the body is refused", async () => large?.received().startsWith("HTTP/1.1 413"), 5);
  });
});
