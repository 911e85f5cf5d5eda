import { createServer, type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, launchApi } from "../support/api.ts";

const LIMIT = 5;

/** Addresses of this machine that stand for others: on Linux, all of 127.0.0.0/8 is its own. */
const EDGE = "127.0.1.1";
const INNER = "127.0.1.2";
const HAS_LOOPBACK_NETWORK = process.platform === "linux";
const HAS_IPV6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === "::1"),
);

let databaseUrl: string;
const started: { stop: () => Promise<unknown> }[] = [];
beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
});
afterAll(() => Promise.all(started.map(({ stop }) => stop())));

const launch = async (trustProxy: string, env: NodeJS.ProcessEnv = {}): Promise<Api> => {
  const limit = { RATE_LIMIT_REQUESTS: String(LIMIT), RATE_LIMIT_WINDOW_SECONDS: "600" };
  const api = await launchApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, ...limit, TRUST_PROXY: trustProxy, ...env } });
  started.push(api);
  return api;
};

/**
 * A reverse proxy that does as nginx does with $proxy_add_x_forwarded_for.
 * @param from - where its own requests come from
 */
const startProxy = async (upstreamPort: number, from: string): Promise<number> => {
  const server: Server = createServer((incoming, outgoing) => {
    const before = incoming.headers["x-forwarded-for"];
    const forwardedFor = [before, incoming.socket.remoteAddress].filter((entry) => entry !== undefined).join(", ");
    const forwarded = request(
      {
        host: "127.0.0.1",
        port: upstreamPort,
        localAddress: from,
        method: incoming.method,
        path: incoming.url,
        headers: { ...incoming.headers, "x-forwarded-for": forwardedFor },
        agent: false,
      },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      },
    );
    forwarded.on("error", () => outgoing.destroy());
    incoming.pipe(forwarded);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  started.push({
    stop: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  });
  return (server.address() as AddressInfo).port;
};

type Asked = { port: number; host?: string; from?: string | undefined; forged?: string | string[] | undefined };

/** How many requests are left to whoever asks this way; null if none was. */
const ask = async ({ port, host = "127.0.0.1", from, forged }: Asked): Promise<number | null> => {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request(
      {
        host,
        port,
        path: CHECK,
        agent: false,
        ...(from !== undefined && { localAddress: from }),
        ...(forged !== undefined && { headers: { "X-Forwarded-For": forged } }),
      },
      resolve,
    );
    sent.on("error", reject);
    sent.end();
  });
  await text(answer);
  const [, remaining] = /^"default";r=(\d+);t=\d+$/.exec(String(answer.headers.ratelimit)) ?? [];
  if (answer.statusCode === 429) {
    expect(remaining).toBe("0");
    return null;
  }
  expect(answer.statusCode).toBe(200);
  return Number(remaining);
};

/** What is left to a client that has asked this often before. */
const leftAfter = (requests: number) => (requests < LIMIT ? LIMIT - 1 - requests : null);

let addresses = 0;
/** An address that nobody has asked from. */
const newAddress = () => `127.0.${2 + (addresses >> 7)}.${1 + (addresses++ & 127)}`;

/** Entries that a client may make up. */
const FORGED: Record<string, (index: number) => string | string[]> = {
  "another address each time": (index) => `203.0.113.${index}`,
  "several addresses": (index) => `203.0.113.${index}, 198.51.100.${index}, 192.0.2.${index}`,
  "an IPv6 address": (index) => `2001:db8:${index}::1`,
  "several headers": (index) => [`203.0.113.${index}`, `198.51.100.${index}`],
  "the name of a proxy": (index) => `203.0.113.${index}, 127.0.0.1, ${EDGE}, ${INNER}`,
  "a comma at the end": (index) => `203.0.113.${index},`,
  garbage: (index) => `unknown-${index}, [, "`,
};

/** That somebody is counted as one client, whatever is made up. */
const expectOneClient = async (asked: Asked, forge: (index: number) => string | string[]) => {
  for (let index = 0; index < LIMIT + 3; index++) {
    expect(await ask({ ...asked, forged: forge(index) })).toBe(leftAfter(index));
  }
  expect(await ask(asked), "without it, it is the same client").toBeNull();
};

/** That two clients who ask in turns do not use up each other's requests. */
const expectTwoClients = async (one: Asked, other: Asked) => {
  for (let index = 0; index < LIMIT + 1; index++) {
    expect(await ask(one)).toBe(leftAfter(index));
    expect(await ask(other)).toBe(leftAfter(index));
  }
};

describe.skipIf(!HAS_LOOPBACK_NETWORK)("TRUST_PROXY=off: the peer is the client", () => {
  let port: number;
  beforeAll(async () => {
    ({ port } = await launch("off"));
  });

  test("each address has a budget of its own", async () => {
    await expectTwoClients({ port, from: newAddress() }, { port, from: newAddress() });
  });

  test.each(Object.entries(FORGED))("X-Forwarded-For never helps: %s", async (_, forge) => {
    await expectOneClient({ port, from: newAddress() }, forge);
  });

  test("not even from this machine", async () => {
    await expectOneClient({ port, from: "127.0.0.1" }, (index) => `203.0.113.${index}`);
  });

  test("a forged header does not use up another's requests either", async () => {
    const [from, other] = [newAddress(), newAddress()];
    for (let index = 0; index < LIMIT + 1; index++) await ask({ port, from, forged: other });
    expect(await ask({ port, from: other })).toBe(leftAfter(0));
  });

  test("behind a proxy, all clients are one: it has to be listed", async () => {
    const proxy = await startProxy(port, newAddress());
    for (let index = 0; index < LIMIT + 1; index++) {
      expect(await ask({ port: proxy, from: newAddress() })).toBe(leftAfter(index));
    }
  });
});

describe.skipIf(!HAS_LOOPBACK_NETWORK)("TRUST_PROXY=127.0.0.1, with one proxy there", () => {
  let port: number;
  let proxy: number;
  beforeAll(async () => {
    ({ port } = await launch("127.0.0.1"));
    proxy = await startProxy(port, "127.0.0.1");
  });

  test("clients behind it have budgets of their own", async () => {
    await expectTwoClients({ port: proxy, from: newAddress() }, { port: proxy, from: newAddress() });
  });

  test("a client is the same behind it and without it", async () => {
    const from = newAddress();
    for (let index = 0; index < LIMIT; index++) expect(await ask({ port: proxy, from })).toBe(leftAfter(index));
    expect(await ask({ port, from })).toBeNull();
  });

  test.each(Object.entries(FORGED))("what a client behind it makes up never helps: %s", async (_, forge) => {
    await expectOneClient({ port: proxy, from: newAddress() }, forge);
  });

  test.each(Object.entries(FORGED))("nor what somebody says who is not the proxy: %s", async (_, forge) => {
    await expectOneClient({ port, from: newAddress() }, forge);
  });

  test("a proxy that is not listed is one client", async () => {
    const unlisted = await startProxy(port, newAddress());
    for (let index = 0; index < LIMIT + 1; index++) {
      expect(await ask({ port: unlisted, from: newAddress() })).toBe(leftAfter(index));
    }
  });

  test("IPv6 clients behind it are counted by /56, and IPv4 in IPv6 as IPv4", async () => {
    const asProxy = (forged: string) => ask({ port, from: "127.0.0.1", forged });
    expect(await asProxy("2001:db8:1:100::1")).toBe(leftAfter(0));
    expect(await asProxy("2001:DB8:1:1ff:ffff::9")).toBe(leftAfter(1));
    expect(await asProxy("2001:db8:1:200::1")).toBe(leftAfter(0));

    const from = newAddress();
    expect(await ask({ port, from })).toBe(leftAfter(0));
    expect(await asProxy(`::ffff:${from}`)).toBe(leftAfter(1));
    expect(await asProxy(`${from}:1234`)).toBe(leftAfter(2));
  });
});

describe.skipIf(!HAS_LOOPBACK_NETWORK)("TRUST_PROXY lists a chain of two proxies", () => {
  let port: number;
  let inner: number;
  let edge: number;
  beforeAll(async () => {
    ({ port } = await launch("127.0.1.0/24, 10.0.0.0/8"));
    inner = await startProxy(port, INNER);
    edge = await startProxy(inner, EDGE);
  });

  test("clients behind both have budgets of their own", async () => {
    await expectTwoClients({ port: edge, from: newAddress() }, { port: edge, from: newAddress() });
  });

  test("a client is the same behind both, behind one, and without any", async () => {
    const from = newAddress();
    for (const [index, asked] of [edge, inner, port].entries()) {
      expect(await ask({ port: asked, from })).toBe(leftAfter(index));
    }
  });

  test.each(Object.entries(FORGED))("what a client behind both makes up never helps: %s", async (_, forge) => {
    await expectOneClient({ port: edge, from: newAddress() }, forge);
  });

  test("where only one of them is listed, the other is the client", async () => {
    const { port } = await launch(INNER);
    const edge = await startProxy(await startProxy(port, INNER), EDGE);
    for (let index = 0; index < LIMIT + 1; index++) {
      expect(await ask({ port: edge, from: newAddress(), forged: `203.0.113.${index}` })).toBe(leftAfter(index));
    }
  });
});

describe("over IPv6", () => {
  beforeEach(({ skip }) => skip(!HAS_IPV6, "This machine has no IPv6: ::1 is none of its addresses."));

  let port: number;
  let trusting: number;
  beforeAll(async () => {
    if (!HAS_IPV6) return;
    // Here IPv4 peers come as ::ffff:127.0.0.1.
    ({ port } = await launch("off", { HOST: "::" }));
    ({ port: trusting } = await launch("::1, 127.0.0.1", { HOST: "::" }));
  });

  test("the peer is the client, and X-Forwarded-For never helps", async () => {
    await expectOneClient({ port, host: "::1" }, (index) => `203.0.113.${index}`);
  });

  test("behind a listed IPv6 proxy, clients have budgets of their own", async () => {
    const asProxy = (forged: string): Asked => ({ port: trusting, host: "::1", forged });
    await expectTwoClients(asProxy("198.51.100.1"), asProxy("198.51.100.2"));
    await expectTwoClients(asProxy("2001:db8:1:100::1"), asProxy("2001:db8:1:200::1"));
    await expectOneClient(asProxy("198.51.100.3"), (index) => `203.0.113.${index}, 198.51.100.3`);
  });

  test.skipIf(!HAS_LOOPBACK_NETWORK)("IPv4 peers are the clients that they are over IPv4, each its own", async () => {
    const [from, other] = [newAddress(), newAddress()];
    await expectTwoClients({ port: trusting, from }, { port: trusting, from: other });
    for (const claim of [from, `::ffff:${from}`, `${from}:443`]) {
      expect(await ask({ port: trusting, host: "::1", forged: claim })).toBeNull();
      expect(await ask({ port: trusting, from: "127.0.0.1", forged: claim }), "as an IPv4 proxy says").toBeNull();
    }
  });

  test.skipIf(!HAS_LOOPBACK_NETWORK)("what IPv4 peers make up never helps", async () => {
    await expectOneClient({ port, from: newAddress() }, (index) => `203.0.113.${index}`);
    await expectOneClient({ port: trusting, from: newAddress() }, (index) => `203.0.113.${index}, 127.0.0.1`);
  });
});
