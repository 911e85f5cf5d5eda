import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clientOf, parseProxies } from "../../api/limits/client-address.ts";
import { measure, ROOT } from "../support/measure.ts";

const RUNS = 10_000;
/** Each of these has some 70 spellings. */
const SPELLED_RUNS = 1_000;

/** As TRUST_PROXY says it. */
const proxies = (list: string) => {
  const parsed = parseProxies(list);
  if (parsed === null) throw new Error(`${list} is not a list of proxies.`);
  return parsed;
};

/** The client at an address, without any proxy. */
const clientAt = (address: string) => clientOf(address, undefined, null);

/** Fails with the seed and the smallest counterexample. */
const holds = <T>(property: fc.IProperty<T>, numRuns = RUNS) => {
  const details = fc.check(property, { numRuns });
  if (details.failed) throw new Error(fc.defaultReportMessage(details), { cause: details.errorInstance });
};

type Case = {
  /** "off" if it is not said. */
  trust?: string;
  peer: string;
  header?: string;
  /** The address that is counted. */
  counted: string;
};

const PEER = "198.51.100.7";
const CLIENT = "203.0.113.9";
const OTHER = "192.0.2.66";

const WITHOUT_TRUST: Record<string, Case> = {
  "no header": { peer: PEER, counted: PEER },
  "a header": { peer: PEER, header: CLIENT, counted: PEER },
  "a header with many entries": { peer: PEER, header: `${OTHER}, ${CLIENT}, 127.0.0.1`, counted: PEER },
  "a header that says what the peer is": { peer: PEER, header: PEER, counted: PEER },
  "a peer on this machine": { peer: "127.0.0.1", header: CLIENT, counted: "127.0.0.1" },
};

const ONE_PROXY: Record<string, Case> = {
  "no header: the proxy itself asks": { peer: "10.0.0.1", counted: "10.0.0.1" },
  "an empty header": { peer: "10.0.0.1", header: "", counted: "10.0.0.1" },
  "a header of blanks and commas": { peer: "10.0.0.1", header: " , ,", counted: "10.0.0.1" },
  "its client": { peer: "10.0.0.1", header: CLIENT, counted: CLIENT },
  "its client, with blanks around": { peer: "10.0.0.1", header: ` \t${CLIENT} `, counted: CLIENT },
  "what its client forged": { peer: "10.0.0.1", header: `${OTHER}, ${CLIENT}`, counted: CLIENT },
  "what its client forged without a blank": { peer: "10.0.0.1", header: `${OTHER},${CLIENT}`, counted: CLIENT },
  "what its client forged as if through the proxy": {
    peer: "10.0.0.1",
    header: `${OTHER}, 10.0.0.1, ${CLIENT}`,
    counted: CLIENT,
  },
  "garbage that its client sent": {
    peer: "10.0.0.1",
    header: `<script>, ,,;=, %00, unknown, ${CLIENT}`,
    counted: CLIENT,
  },
  "a header from somebody who is not the proxy": { peer: PEER, header: CLIENT, counted: PEER },
  "a neighbour of the proxy": { peer: "10.0.0.2", header: CLIENT, counted: "10.0.0.2" },
  "somebody who names the proxy": { peer: PEER, header: "10.0.0.1", counted: PEER },
  "somebody who names a client and the proxy": { peer: PEER, header: `${CLIENT}, 10.0.0.1`, counted: PEER },
};

const CHAIN: Record<string, Case> = {
  "the client": { peer: "10.0.0.2", header: `${CLIENT}, 10.0.0.1`, counted: CLIENT },
  "what the client forged": { peer: "10.0.0.2", header: `${OTHER}, ${CLIENT}, 10.0.0.1`, counted: CLIENT },
  "what the client forged as if through the chain": {
    peer: "10.0.0.2",
    header: `${OTHER}, 10.0.0.1, ${CLIENT}, 10.0.0.1`,
    counted: CLIENT,
  },
  "a client that came to the inner proxy": { peer: "10.0.0.2", header: CLIENT, counted: CLIENT },
  "a client that came to the outer proxy's outside": { peer: CLIENT, header: `${OTHER}, 10.0.0.1`, counted: CLIENT },
  "all entries are proxies: the first of them asks": {
    peer: "10.0.0.3",
    header: "10.0.0.1, 10.0.0.2",
    counted: "10.0.0.1",
  },
  "a proxy that says nothing of use speaks for itself": {
    peer: "10.0.0.2",
    header: `${CLIENT}, unknown, 10.0.0.1`,
    counted: "10.0.0.1",
  },
  "as does one that says nothing": { peer: "10.0.0.2", header: `${CLIENT},, 10.0.0.1`, counted: "10.0.0.1" },
  "an IPv6 client": { peer: "10.0.0.2", header: "2001:db8:1:100::1, 10.0.0.1", counted: "2001:db8:1:100::1" },
};

const IPV6_PROXIES: Record<string, Case> = {
  "one address": { trust: "2001:db8::1", peer: "2001:db8::1", header: CLIENT, counted: CLIENT },
  "one address, in other words": { trust: "2001:DB8:0::1", peer: "2001:db8::1", header: CLIENT, counted: CLIENT },
  "its neighbour": { trust: "2001:db8::1", peer: "2001:db8::2", header: CLIENT, counted: "2001:db8::2" },
  "a network": { trust: "fd00::/8", peer: "fdab::7", header: `${OTHER}, ${CLIENT}`, counted: CLIENT },
  "outside of it": { trust: "fd00::/8", peer: "fe00::7", header: CLIENT, counted: "fe00::7" },
  "this machine": { trust: "127.0.0.1,::1", peer: "::1", header: CLIENT, counted: CLIENT },
  "a chain of both kinds": {
    trust: "10.0.0.0/8, fd00::/8",
    peer: "fd00::1",
    header: `${OTHER}, 2001:db8::5, fd00::2, 10.1.1.1`,
    counted: "2001:db8::5",
  },
  "with a zone": { trust: "fe80::/10", peer: "fe80::1%eth0", header: CLIENT, counted: CLIENT },
  "as a claim with a port": { trust: "::1", peer: "::1", header: `${CLIENT}, [::1]:443`, counted: CLIENT },
};

describe("who is counted", () => {
  const check = ({ trust = "off", peer, header, counted }: Case) => {
    const trusted = trust === "off" ? null : proxies(trust);
    expect(clientOf(peer, header, trusted)).toBe(clientAt(counted));
  };
  const withTrust = (trust: string, cases: Record<string, Case>) =>
    Object.entries(cases).map(([name, given]): [string, Case] => [name, { trust, ...given }]);

  describe("without trust: the peer, whatever the header says", () => {
    test.each(Object.entries(WITHOUT_TRUST))("%s", (_, given) => check(given));
  });
  describe("behind one proxy: what it appended", () => {
    test.each(withTrust("10.0.0.1", ONE_PROXY))("%s", (_, given) => check(given));
  });
  describe("behind a chain of proxies: the rightmost that is none of them", () => {
    test.each(withTrust("10.0.0.0/24", CHAIN))("%s", (_, given) => check(given));
  });
  describe("behind IPv6 proxies", () => {
    test.each(Object.entries(IPV6_PROXIES))("%s", (_, given) => check(given));
  });

  test.each([
    "unknown",
    "_hidden",
    "proxy.example",
    "203.0.113",
    "203.0.113.9.1",
    "203.0.113.256",
    "203.0.113.09",
    "0xcb.0.113.9",
    "203.0.113.9/32",
    "203.0.113.9:port",
    "203.0.113.9 10.0.0.1",
    "for=203.0.113.9",
    '"203.0.113.9"',
    "2001:db8::1::2",
    "2001:db8::g",
    "[2001:db8::1",
    "2001:db8::1]",
    "[]",
    "[]:80",
    ":80",
    "%eth0",
    "é",
    "x".repeat(7000),
    ":".repeat(7000),
  ])("a proxy that claims %j speaks for itself", (claim) => {
    expect(clientOf("10.0.0.1", claim, proxies("10.0.0.1"))).toBe("10.0.0.1");
  });

  test.each([`${CLIENT}:1234`, `${CLIENT}:1`, `[${CLIENT}]:80`, `::ffff:${CLIENT}`, `[::ffff:${CLIENT}]:1234`])(
    "%s, as some proxies write it, is the client without the port",
    (claim) => {
      expect(clientOf("10.0.0.1", claim, proxies("10.0.0.1"))).toBe(CLIENT);
    },
  );

  test.each(["[2001:db8:1:100::1]:1234", "[2001:db8:1:100::1]", "2001:db8:1:100::1%eth0", "[2001:DB8:1:100::1%1]:80"])(
    "%s, as some proxies write it, is the client at that address",
    (claim) => {
      expect(clientOf("10.0.0.1", claim, proxies("10.0.0.1"))).toBe(clientAt("2001:db8:1:100::1"));
    },
  );

  test("connections whose other end is not known are one client, which no header changes", () => {
    const trusted = proxies("10.0.0.1");
    const unknown = clientOf(undefined, CLIENT, trusted);
    expect(clientOf(undefined, undefined, null)).toBe(unknown);
    expect(clientOf("/run/api.sock", CLIENT, trusted)).toBe(unknown);
    expect(clientAt(CLIENT)).not.toBe(unknown);
  });
});

describe("an IPv4 address in IPv6 is that IPv4 address", () => {
  const MAPPED = [
    "::ffff:203.0.113.9",
    "::FFFF:203.0.113.9",
    "::ffff:cb00:7109",
    "::FfFf:CB00:7109",
    "0:0:0:0:0:ffff:203.0.113.9",
    "0000:0000:0000:0000:0000:ffff:cb00:7109",
    "0::ffff:cb00:7109",
    "::0:ffff:203.0.113.9",
    "0:0::0:0:ffff:203.0.113.9",
    "::ffff:203.0.113.9%eth0",
  ];

  test.each(MAPPED)("%s as the peer", (spelling) => {
    expect(clientAt(spelling)).toBe(CLIENT);
  });
  test.each(MAPPED)("%s as a claim", (spelling) => {
    expect(clientOf("10.0.0.1", `${OTHER}, ${spelling}`, proxies("10.0.0.1"))).toBe(CLIENT);
  });
  test.each(MAPPED)("%s as the proxy", (spelling) => {
    expect(clientOf(spelling, OTHER, proxies(CLIENT))).toBe(OTHER);
    expect(clientOf(spelling, OTHER, proxies("203.0.113.0/24"))).toBe(OTHER);
  });
  test.each(MAPPED)("%s as a claimed proxy", (spelling) => {
    expect(clientOf("10.0.0.1", `${OTHER}, ${spelling}`, proxies(`10.0.0.1,${CLIENT}`))).toBe(OTHER);
  });

  test.each([
    ["the low bits of an address that begins otherwise", "2001:db8::ffff:203.0.113.9"],
    ["an address without the mark", "::203.0.113.9"],
    ["one with the mark elsewhere", "::ffff:0:203.0.113.9"],
    ["one with a bit too many in front", "1::ffff:203.0.113.9"],
  ])("%s is not", (_, address) => {
    expect(clientAt(address)).not.toBe(CLIENT);
  });
});

describe("an IPv6 client is its /56", () => {
  const SAME: [string, string][] = [
    ["2001:db8:1:100::1", "2001:db8:1:100::2"],
    ["2001:db8:1:100::1", "2001:db8:1:1ff:ffff:ffff:ffff:ffff"],
    ["2001:db8:1::", "2001:db8:1:ff::1"],
    ["2001:db8:1:100::1", "2001:0DB8:0001:0100:0000:0000:0000:0001"],
    ["fe80::1%eth0", "fe80::1%eth1"],
    ["fe80::1%eth0", "fe80::1"],
    ["::", "::1"],
  ];
  const DIFFERENT: [string, string][] = [
    ["2001:db8:1:1ff::1", "2001:db8:1:200::1"],
    ["2001:db8:1:100::1", "2001:db8:1:0ff::1"],
    ["2001:db8:1:100::1", "2001:db8:2:100::1"],
    ["2001:db8:1:100::1", "2002:db8:1:100::1"],
    ["::1", "::ffff:0.0.0.1"],
    ["::1", "127.0.0.1"],
  ];

  test.each(SAME)("%s and %s are one", (one, other) => {
    expect(clientAt(one)).toBe(clientAt(other));
  });
  test.each(DIFFERENT)("%s and %s are two", (one, other) => {
    expect(clientAt(one)).not.toBe(clientAt(other));
  });
});

// For any address.

const ipv6 = fc.array(fc.oneof(fc.constantFrom(0, 0, 0xffff), fc.nat(0xffff)), { minLength: 8, maxLength: 8 });
const mapped = fc
  .tuple(fc.nat(0xffff), fc.nat(0xffff))
  .map(([high, low]): number[] => [0, 0, 0, 0, 0, 0xffff, high, low]);
const ipv4 = fc.array(fc.nat(255), { minLength: 4, maxLength: 4 }).map((bytes) => bytes.join("."));
const address = fc.oneof(
  ipv4,
  ipv6.map((groups) => plain(groups)),
);

const plain = (groups: readonly number[]) => groups.map((group) => group.toString(16)).join(":");

const dotted = (groups: readonly number[]) =>
  groups
    .slice(6)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join(".");

/** Every way to leave out zeros. */
const compressed = (parts: readonly string[]): string[] =>
  parts.flatMap((_, start) =>
    parts.slice(start).flatMap((_, length) => {
      const isZero = parts.slice(start, start + length + 1).every((part) => /^0+$/.test(part));
      return isZero ? `${parts.slice(0, start).join(":")}::${parts.slice(start + length + 1).join(":")}` : [];
    }),
  );

const spellingsOf = (groups: readonly number[]): string[] => {
  const short = groups.map((group) => group.toString(16));
  const long = short.map((part) => part.padStart(4, "0"));
  const written = [short, long, [...short.slice(0, 6), dotted(groups)], [...long.slice(0, 6), dotted(groups)]]
    .flatMap((parts) => [parts.join(":"), ...compressed(parts)])
    .concat(new URL(`http://[${plain(groups)}]`).hostname.slice(1, -1));
  return [...new Set(written.flatMap((text) => [text, text.toUpperCase(), `${text}%eth0`]))];
};

describe("for any address", () => {
  test("all spellings of an IPv6 address are one client, as peer and as claim", () => {
    let spellings = 0;
    const trusted = proxies("10.0.0.1");
    const property = fc.property(
      fc.oneof({ weight: 4, arbitrary: ipv6 }, { weight: 1, arbitrary: mapped }),
      (groups) => {
        const client = clientAt(plain(groups));
        for (const spelling of spellingsOf(groups)) {
          spellings++;
          const found = [
            clientAt(spelling),
            clientOf("10.0.0.1", spelling, trusted),
            clientOf("10.0.0.1", `${OTHER},[${spelling}]:443`, trusted),
          ];
          if (found.some((one) => one !== client))
            throw new Error(`${spelling} is ${found.join(" and ")}, not ${client}`);
        }
      },
    );
    holds(property, SPELLED_RUNS);
    console.log(`${SPELLED_RUNS} addresses in ${spellings} spellings`);
  });

  test("an IPv6 address with one bit changed is another client if, and only if, it is one of the first 56", () => {
    const isNotMapped = (groups: readonly number[]) => groups.slice(0, 5).some((group) => group !== 0);
    const property = fc.property(ipv6.filter(isNotMapped), fc.nat(127), (groups, bit) => {
      const changed = groups.map((group, index) => (index === bit >> 4 ? group ^ (0x8000 >> (bit & 15)) : group));
      fc.pre(isNotMapped(changed));
      return (clientAt(plain(groups)) === clientAt(plain(changed))) === bit >= 56;
    });
    holds(property);
  });

  test("an IPv4 address is a client of its own", () => {
    holds(fc.property(ipv4, ipv4, (one, other) => (clientAt(one) === clientAt(other)) === (one === other)));
    holds(fc.property(ipv4, ipv6, (one, other) => clientAt(one) !== clientAt(plain(other)) || one === dotted(other)));
  });

  const proxy = fc.constantFrom("10.0.0.1", "10.7.8.9", "::ffff:10.0.0.3", "fd00::1", "[fd00::2]:443", "10.0.0.4:80");
  const TRUST = proxies("10.0.0.0/8,fd00::/8");
  const untrusted = address.filter((text) => !/^(10\.|fd|(0+:)+ffff:)/i.test(text));
  /** What a client may put into the header before a proxy appends to it. */
  const forged = fc
    .array(fc.oneof(address, proxy, fc.constantFrom("", " ", "unknown", "[", "%"), fc.string({ unit: "binary" })), {
      maxLength: 5,
    })
    .map((entries) => entries.join(","));
  const separator = fc.constantFrom(", ", ",", " ,\t");

  test("what is forged left of the rightmost untrusted entry changes nothing", () => {
    const property = fc.property(
      forged,
      untrusted,
      fc.array(proxy, { maxLength: 4 }),
      fc.constantFrom("10.0.0.1", "::ffff:10.9.9.9", "fd00::9"),
      separator,
      (forged, client, hops, peer, separator) => {
        const appended = [client, ...hops].join(separator);
        const expected = clientAt(client);
        const found = [appended, `${forged}${separator}${appended}`].map((header) => clientOf(peer, header, TRUST));
        return found.every((one) => one === expected);
      },
    );
    holds(property);
  });

  test("what somebody says who is no proxy changes nothing", () => {
    holds(fc.property(untrusted, forged, (peer, header) => clientOf(peer, header, TRUST) === clientAt(peer)));
  });

  test("without trust, the header never matters", () => {
    const peers = fc.oneof(address, proxy, fc.constant("127.0.0.1"));
    holds(fc.property(peers, forged, (peer, header) => clientOf(peer, header, null) === clientAt(peer)));
  });
});

describe("parseProxies()", () => {
  const LISTS: Record<string, { inside: string[]; outside: string[] }> = {
    "192.0.2.7": { inside: ["192.0.2.7", "::ffff:192.0.2.7"], outside: ["192.0.2.6", "192.0.2.8"] },
    "192.0.2.7/32": { inside: ["192.0.2.7"], outside: ["192.0.2.6", "192.0.2.8"] },
    "10.0.0.0/8": { inside: ["10.0.0.0", "10.255.255.255"], outside: ["9.255.255.255", "11.0.0.0", "a00::"] },
    // By any address of it, as routers take it.
    "10.1.2.3/8": { inside: ["10.0.0.0", "10.255.255.255"], outside: ["11.0.0.0"] },
    "172.16.0.0/12": { inside: ["172.16.0.1", "172.31.255.255"], outside: ["172.15.255.255", "172.32.0.0"] },
    "2001:db8::/56": { inside: ["2001:db8::1", "2001:db8:0:ff::"], outside: ["2001:db8:0:100::"] },
    "::1": { inside: ["::1"], outside: ["::2", "127.0.0.1", "0.0.0.1"] },
    "fd00::/8": { inside: ["fd00::1", "fdff::"], outside: ["fc00::1", "fe00::", "10.0.0.1"] },
    " 127.0.0.1 ,::1,\t10.0.0.0/8": { inside: ["127.0.0.1", "::1", "10.2.3.4"], outside: ["127.0.0.2", "::2"] },
  };

  test.each(Object.entries(LISTS))("%j trusts exactly those", (list, { inside, outside }) => {
    const trusted = proxies(list);
    for (const peer of inside) expect(clientOf(peer, CLIENT, trusted), peer).toBe(CLIENT);
    for (const peer of outside) expect(clientOf(peer, CLIENT, trusted), peer).toBe(clientAt(peer));
  });

  test.each([
    "",
    " ",
    ",",
    "10.0.0.1,",
    ",10.0.0.1",
    "10.0.0.1 10.0.0.2",
    "10.0.0.1;10.0.0.2",
    "true",
    "1",
    "*",
    "all",
    "loopback",
    "proxy.example",
    "10.0.0.0/0",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    "10.0.0.0/255.0.0.0",
    "10.0.0",
    "10.0.0.1:80",
    "::/0",
    "fd00::/129",
    "[::1]",
    // Those peers are taken for IPv4: trusted is who is listed as such.
    "::ffff:10.0.0.1",
    "::ffff:a00:1",
    "0:0:0:0:0:ffff:0:0/96",
  ])("%j is not a list of proxies", (list) => {
    expect(parseProxies(list)).toBeNull();
  });
});

test("a client that is remembered does not keep the header that named it in memory", async () => {
  const script = `
    import { clientOf, parseProxies } from "${ROOT}/api/limits/client-address.ts";

    const read = () => {
      gc();
      gc();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const trusted = parseProxies("10.0.0.1");
    const ipv4 = (index) => ["100", ...[index >> 12, (index >> 6) & 63, index & 63].map((byte) => 100 + byte)].join(".");
    const ipv6 = (index) => "2001:db8:" + (0x1000 + index).toString(16) + ":ff00::1";
    const CLAIMS = [
      (index) => ipv4(index),
      (index) => ipv4(index) + ":12345",
      (index) => "::ffff:" + ipv4(index),
      (index) => "0:0:0:0:0:ffff:" + ipv4(index),
      (index) => ipv6(index),
      (index) => "[" + ipv6(index) + "]:443",
    ];
    const clients = new Map();
    const before = read();
    for (let index = 0; index < 50_000; index++) {
      const claim = CLAIMS[index % CLAIMS.length](index);
      // As it comes from the network: one text, not put together from parts.
      const header = Buffer.from("203.0.113.9,".repeat(600).slice(0, 7000) + ", " + claim).toString("latin1");
      clients.set(clientOf("10.0.0.1", header, trusted), index);
    }
    console.log(JSON.stringify({ mb: (read() - before) / 1e6, clients: clients.size }));
  `;
  const { mb, clients } = await measure(script);
  console.log(`${mb.toFixed(1)} MB`);
  expect(clients).toBe(50_000);
  expect(mb).toBeLessThan(60);
});
