import { createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { text } from "node:stream/consumers";
import { beforeEach, describe, expect, onTestFinished } from "vitest";
import { CHECK, FRESH_FOR_A_DAY, launchApi } from "../support/api.ts";
import { sendHttp } from "../support/http.ts";
import { waitUntil } from "../support/setup.ts";
import { test as base } from "../support/test.ts";

const LIMIT = 5;

/** On Linux, all of 127.0.0.0/8 is local, and provides addresses for clients and proxies. */
const EDGE = "127.0.1.1";
const INNER = "127.0.1.2";
const HAS_LOOPBACK_NETWORK = process.platform === "linux";
const HAS_IPV6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === "::1"),
);

const test = base
  /** Launches an API with a setting of TRUST_PROXY, once. */
  .extend("launch", { scope: "file" }, ({ databaseUrl }, { onCleanup }) => {
    const launched = new Map<string, ReturnType<typeof launchApi>>();
    onCleanup(async () => {
      for (const api of launched.values()) await (await api).stop();
    });
    return (trustProxy: string, host = "127.0.0.1") => {
      const name = `${trustProxy} at ${host}`;
      const limit = { RATE_LIMIT_REQUESTS: String(LIMIT), RATE_LIMIT_WINDOW_SECONDS: "600", LOG_LEVEL: "trace" };
      const env = { ...FRESH_FOR_A_DAY, ...limit, TRUST_PROXY: trustProxy, HOST: host };
      const api = launched.get(name) ?? launchApi({ databaseUrl, env });
      launched.set(name, api);
      return api;
    };
  })
  /** Starts a reverse proxy that sends from a given address, and appends to X-Forwarded-For like nginx. */
  .extend("startProxy", () => async (upstreamPort: number, from: string): Promise<number> => {
    const server = createServer((incoming, outgoing) => {
      const before = incoming.headers["x-forwarded-for"];
      const forwardedFor = [before, incoming.socket.remoteAddress].filter((entry) => entry !== undefined).join(", ");
      const headers = { ...incoming.headers, "x-forwarded-for": forwardedFor };
      const { method, url: path } = incoming;
      const upstream = { host: "127.0.0.1", port: upstreamPort, localAddress: from, agent: false };
      const forwarded = request({ ...upstream, method, path, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      });
      forwarded.on("error", () => outgoing.destroy());
      incoming.pipe(forwarded);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    return (server.address() as AddressInfo).port;
  });

type Asked = { port: number; host?: string; from?: string | undefined; forged?: string | string[] | undefined };

/** Sends a request. @returns the remaining requests of its client; null for a 429 */
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

/** Returns the remaining requests of a client that sent this many before. */
const leftAfter = (requests: number) => (requests < LIMIT ? LIMIT - 1 - requests : null);

let addresses = 0;
/** Returns a new client address. */
const newAddress = () => `127.0.${2 + (addresses >> 7)}.${1 + (addresses++ & 127)}`;

/** Headers that a client may send. */
const FORGED: Record<string, (index: number) => string | string[]> = {
  "another address each time": (index) => `203.0.113.${index}`,
  "several addresses": (index) => `203.0.113.${index}, 198.51.100.${index}, 192.0.2.${index}`,
  "an IPv6 address": (index) => `2001:db8:${index}::1`,
  "several headers": (index) => [`203.0.113.${index}`, `198.51.100.${index}`],
  "addresses of the proxies": (index) => `203.0.113.${index}, 127.0.0.1, ${EDGE}, ${INNER}`,
  "a comma at the end": (index) => `203.0.113.${index},`,
  garbage: (index) => `unknown-${index}, [, "`,
};

/** Expects one budget for any header. */
const expectOneClient = async (asked: Asked, forge: (index: number) => string | string[]) => {
  for (let index = 0; index < LIMIT + 3; index++) {
    expect(await ask({ ...asked, forged: forge(index) })).toBe(leftAfter(index));
  }
  expect(await ask(asked), "without the header").toBeNull();
};

/** Expects one budget for all clients behind a proxy. */
const expectOneProxy = async (asked: Asked) => {
  for (let index = 0; index < LIMIT + 1; index++) {
    expect(await ask({ ...asked, from: newAddress(), forged: `203.0.113.${index}` })).toBe(leftAfter(index));
  }
};

/** Expects two budgets. */
const expectTwoClients = async (one: Asked, other: Asked) => {
  for (let index = 0; index < LIMIT + 1; index++) {
    expect(await ask(one)).toBe(leftAfter(index));
    expect(await ask(other)).toBe(leftAfter(index));
  }
};

describe.skipIf(!HAS_LOOPBACK_NETWORK)("with TRUST_PROXY=off", () => {
  test("each peer address has its own budget", async ({ launch }) => {
    const { port } = await launch("off");
    await expectTwoClients({ port, from: newAddress() }, { port, from: newAddress() });
  });

  test.for(Object.entries(FORGED))("a forged X-Forwarded-For is ignored: %s", async ([, forge], { launch }) => {
    await expectOneClient({ port: (await launch("off")).port, from: newAddress() }, forge);
  });

  test("a forged X-Forwarded-For is ignored from this machine", async ({ launch }) => {
    await expectOneClient({ port: (await launch("off")).port, from: "127.0.0.1" }, (index) => `203.0.113.${index}`);
  });

  test("a forged X-Forwarded-For does not use up the budget of another address", async ({ launch }) => {
    const { port } = await launch("off");
    const [from, other] = [newAddress(), newAddress()];
    for (let index = 0; index < LIMIT + 1; index++) await ask({ port, from, forged: other });
    expect(await ask({ port, from: other })).toBe(leftAfter(0));
  });

  test("all clients behind a proxy share one budget", async ({ launch, startProxy }) => {
    await expectOneProxy({ port: await startProxy((await launch("off")).port, newAddress()) });
  });
});

describe.skipIf(!HAS_LOOPBACK_NETWORK)("with TRUST_PROXY=127.0.0.1, the address of one proxy,", () => {
  test("each client behind the proxy has its own budget, with it and without", async ({ launch, startProxy }) => {
    const { port } = await launch("127.0.0.1");
    const proxy = await startProxy(port, "127.0.0.1");
    const from = newAddress();
    await expectTwoClients({ port: proxy, from }, { port: proxy, from: newAddress() });
    expect(await ask({ port, from })).toBeNull();
  });

  test.for(Object.entries(FORGED))(
    "a forged X-Forwarded-For is ignored, behind the proxy or not: %s",
    async ([, forge], { launch, startProxy }) => {
      const { port } = await launch("127.0.0.1");
      await expectOneClient({ port: await startProxy(port, "127.0.0.1"), from: newAddress() }, forge);
      await expectOneClient({ port, from: newAddress() }, forge);
    },
  );

  test("all clients behind another proxy share one budget", async ({ launch, startProxy }) => {
    await expectOneProxy({ port: await startProxy((await launch("127.0.0.1")).port, newAddress()) });
  });

  test("IPv6 clients are counted by /56, and IPv4-mapped IPv6 as IPv4", async ({ launch }) => {
    const { port } = await launch("127.0.0.1");
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

describe.skipIf(!HAS_LOOPBACK_NETWORK)("with a chain of two proxies in TRUST_PROXY", () => {
  const CHAIN = "127.0.1.0/24, 10.0.0.0/8";

  test("each client has its own budget, behind both, behind one, and without any", async ({ launch, startProxy }) => {
    const { port } = await launch(CHAIN);
    const inner = await startProxy(port, INNER);
    const edge = await startProxy(inner, EDGE);
    await expectTwoClients({ port: edge, from: newAddress() }, { port: edge, from: newAddress() });
    const from = newAddress();
    for (const [index, asked] of [edge, inner, port].entries()) {
      expect(await ask({ port: asked, from })).toBe(leftAfter(index));
    }
  });

  test.for(Object.entries(FORGED))(
    "a forged X-Forwarded-For is ignored: %s",
    async ([, forge], { launch, startProxy }) => {
      const inner = await startProxy((await launch(CHAIN)).port, INNER);
      await expectOneClient({ port: await startProxy(inner, EDGE), from: newAddress() }, forge);
    },
  );

  test("all clients share one budget if only the inner proxy is listed", async ({ launch, startProxy }) => {
    const inner = await startProxy((await launch(INNER)).port, INNER);
    await expectOneProxy({ port: await startProxy(inner, EDGE) });
  });
});

describe.skipIf(!HAS_LOOPBACK_NETWORK)("X-Request-Id", () => {
  const GENERATED = /^[0-9a-f]{16}-\d+$/;
  const sendId = async (port: number, id: string, from: string) =>
    (await sendHttp(port, { path: "/health", localAddress: from, headers: { "X-Request-Id": id } })).headers[
      "x-request-id"
    ];

  test.for(["off", INNER])(
    "of a client is in no response and no log line: TRUST_PROXY=%s",
    async (trust, { launch }) => {
      const api = await launch(trust);
      const used = await sendId(api.port, "forged-0001", "127.0.0.1");
      expect(used).toMatch(GENERATED);
      await waitUntil("the request is logged", () => api.output().includes(`"requestId":"${used}"`));
      expect(api.output()).not.toContain("forged");
    },
  );

  test("of a trusted proxy is in the response and in the log, unless it could forge a log line", async ({ launch }) => {
    const api = await launch(INNER);
    expect(await sendId(api.port, "trace-0001", INNER)).toBe("trace-0001");
    await waitUntil("the request is logged", () => api.output().includes('"requestId":"trace-0001"'));
    expect(await sendId(api.port, '"}{"level":60', INNER)).toMatch(GENERATED);
  });
});

// On ::, IPv4 peers appear as ::ffff:127.0.0.1.
describe("over IPv6", () => {
  beforeEach(({ skip }) => skip(!HAS_IPV6, "This machine has no IPv6 loopback address."));
  const PROXIES = "::1, 127.0.0.1";

  test("a forged X-Forwarded-For is ignored", async ({ launch }) => {
    const { port } = await launch("off", "::");
    await expectOneClient({ port, host: "::1" }, (index) => `203.0.113.${index}`);
  });

  test("each client behind a trusted IPv6 proxy has its own budget", async ({ launch }) => {
    const { port } = await launch(PROXIES, "::");
    const asProxy = (forged: string): Asked => ({ port, host: "::1", forged });
    await expectTwoClients(asProxy("198.51.100.1"), asProxy("198.51.100.2"));
    await expectTwoClients(asProxy("2001:db8:1:100::1"), asProxy("2001:db8:1:200::1"));
    await expectOneClient(asProxy("198.51.100.3"), (index) => `203.0.113.${index}, 198.51.100.3`);
  });

  test.skipIf(!HAS_LOOPBACK_NETWORK)(
    "an IPv4 peer has one budget for any spelling of its address by a proxy",
    async ({ launch }) => {
      const { port } = await launch(PROXIES, "::");
      const [from, other] = [newAddress(), newAddress()];
      await expectTwoClients({ port, from }, { port, from: other });
      for (const claim of [from, `::ffff:${from}`, `${from}:443`]) {
        expect(await ask({ port, host: "::1", forged: claim })).toBeNull();
        expect(await ask({ port, from: "127.0.0.1", forged: claim }), "from an IPv4 proxy").toBeNull();
      }
    },
  );

  test.skipIf(!HAS_LOOPBACK_NETWORK)("a forged X-Forwarded-For of an IPv4 peer is ignored", async ({ launch }) => {
    const [off, trusting] = [await launch("off", "::"), await launch(PROXIES, "::")];
    await expectOneClient({ port: off.port, from: newAddress() }, (index) => `203.0.113.${index}`);
    await expectOneClient({ port: trusting.port, from: newAddress() }, (index) => `203.0.113.${index}, 127.0.0.1`);
  });
});
