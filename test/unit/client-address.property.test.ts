import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { identifyClient, parseNetworks } from "../../api/limits/client-address.ts";
import { PROPERTY_RUNS } from "../support/random.ts";

const CLIENT = "203.0.113.9";
const OTHER = "192.0.2.66";

const proxies = (list: string) => {
  const parsed = parseNetworks(list);
  if (parsed === null) throw new Error(`${list} is not a list of proxies.`);
  return parsed;
};

/** Identifies the client at an address without a proxy. */
const clientAt = (address: string) => identifyClient(address, undefined, null);

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

/** Lists every way to abbreviate zeros. */
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

test("all spellings of an IPv6 address are one client, as peer, in X-Forwarded-For and as proxy", () => {
  const trusted = proxies("10.0.0.1");
  const property = fc.property(fc.oneof({ weight: 4, arbitrary: ipv6 }, { weight: 1, arbitrary: mapped }), (groups) => {
    const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
    // IPv4-mapped IPv6 is IPv4.
    const address = isMapped ? dotted(groups) : plain(groups);
    const client = clientAt(address);
    const itself = proxies(address);
    for (const spelling of spellingsOf(groups)) {
      const found = [
        clientAt(spelling),
        identifyClient("10.0.0.1", spelling, trusted),
        identifyClient("10.0.0.1", `${OTHER},[${spelling}]:443`, trusted),
      ];
      if (found.some((one) => one !== client)) throw new Error(`${spelling} is ${found.join(" and ")}, not ${client}`);
      const isProxy = identifyClient(spelling, OTHER, itself) === OTHER;
      // Node's BlockList reads 45 characters at most, more than Node's own spelling of a peer has.
      if (!isProxy && (isMapped || spelling.length < 45)) throw new Error(`${spelling} is not a trusted proxy`);
    }
  });
  // Each address has about 70 spellings.
  fc.assert(property, { numRuns: PROPERTY_RUNS / 10 });
});

test("IPv6 addresses are one client if and only if their first 56 bits are equal", () => {
  const isNotMapped = (groups: readonly number[]) => groups.slice(0, 5).some((group) => group !== 0);
  const property = fc.property(ipv6.filter(isNotMapped), fc.nat(127), (groups, bit) => {
    const changed = groups.map((group, index) => (index === bit >> 4 ? group ^ (0x8000 >> (bit & 15)) : group));
    fc.pre(isNotMapped(changed));
    return (clientAt(plain(groups)) === clientAt(plain(changed))) === bit >= 56;
  });
  fc.assert(property, { numRuns: PROPERTY_RUNS });
});

test("each IPv4 address is a client of its own", () => {
  fc.assert(
    fc.property(ipv4, ipv4, (one, other) => (clientAt(one) === clientAt(other)) === (one === other)),
    { numRuns: PROPERTY_RUNS },
  );
  fc.assert(
    fc.property(ipv4, ipv6, (one, other) => clientAt(one) !== clientAt(plain(other)) || one === dotted(other)),
    { numRuns: PROPERTY_RUNS },
  );
});

const proxy = fc.constantFrom("10.0.0.1", "10.7.8.9", "::ffff:10.0.0.3", "fd00::1", "[fd00::2]:443", "10.0.0.4:80");
const TRUST = proxies("10.0.0.0/8,fd00::/8");
const untrusted = address.filter((text) => !/^(10\.|fd|(0+:)+ffff:)/i.test(text));
/** Headers from a client, before a proxy appends to them. */
const forged = fc
  .array(fc.oneof(address, proxy, fc.constantFrom("", " ", "unknown", "[", "%"), fc.string({ unit: "binary" })), {
    maxLength: 5,
  })
  .map((entries) => entries.join(","));
const separator = fc.constantFrom(", ", ",", " ,\t");

test("entries left of the rightmost untrusted one do not matter", () => {
  const property = fc.property(
    forged,
    untrusted,
    fc.array(proxy, { maxLength: 4 }),
    fc.constantFrom("10.0.0.1", "::ffff:10.9.9.9", "fd00::9"),
    separator,
    (forged, client, hops, peer, separator) => {
      const appended = [client, ...hops].join(separator);
      const expected = clientAt(client);
      const found = [appended, `${forged}${separator}${appended}`].map((header) => identifyClient(peer, header, TRUST));
      return found.every((one) => one === expected);
    },
  );
  fc.assert(property, { numRuns: PROPERTY_RUNS });
});

test("the header of an untrusted peer does not matter", () => {
  fc.assert(
    fc.property(untrusted, forged, (peer, header) => identifyClient(peer, header, TRUST) === clientAt(peer)),
    { numRuns: PROPERTY_RUNS },
  );
});

test("the header does not matter without trusted proxies", () => {
  const peers = fc.oneof(address, proxy, fc.constant("127.0.0.1"));
  fc.assert(
    fc.property(peers, forged, (peer, header) => identifyClient(peer, header, null) === clientAt(peer)),
    { numRuns: PROPERTY_RUNS },
  );
});

describe("identifyClient()", () => {
  test.for<[trust: string, what: string, peer: string, header: string | undefined, counted: string]>([
    ["10.0.0.1", "no header: the proxy itself asks", "10.0.0.1", undefined, "10.0.0.1"],
    ["10.0.0.1", "an empty header", "10.0.0.1", "", "10.0.0.1"],
    ["10.0.0.1", "a header of blanks and commas", "10.0.0.1", " , ,", "10.0.0.1"],
    ["10.0.0.1", "its client", "10.0.0.1", CLIENT, CLIENT],
    ["10.0.0.1", "its client, with blanks around", "10.0.0.1", ` \t${CLIENT} `, CLIENT],
    ["10.0.0.1", "an entry forged as if by the proxy", "10.0.0.1", `${OTHER}, 10.0.0.1, ${CLIENT}`, CLIENT],
    ["10.0.0.1", "a header from a neighbour of the proxy", "10.0.0.2", CLIENT, "10.0.0.2"],
    ["10.0.0.0/24", "a client behind two proxies", "10.0.0.2", `${OTHER}, ${CLIENT}, 10.0.0.1`, CLIENT],
    ["10.0.0.0/24", "only proxies: the first of them", "10.0.0.3", "10.0.0.1, 10.0.0.2", "10.0.0.1"],
    ["10.0.0.0/24", "a proxy that names no address", "10.0.0.2", `${CLIENT}, unknown, 10.0.0.1`, "10.0.0.1"],
    ["10.0.0.0/24", "a proxy that names nothing", "10.0.0.2", `${CLIENT},, 10.0.0.1`, "10.0.0.1"],
    ["2001:db8::1", "an IPv6 proxy", "2001:db8::1", CLIENT, CLIENT],
    ["2001:DB8:0::1", "its other spelling", "2001:db8::1", CLIENT, CLIENT],
    ["2001:db8::1", "its neighbour", "2001:db8::2", CLIENT, "2001:db8::2"],
    ["127.0.0.1,::1", "this machine", "::1", CLIENT, CLIENT],
    ["10.0.0.0/8, fd00::/8", "a chain of both", "fd00::1", `${OTHER}, 2001:db8::5, fd00::2, 10.1.1.1`, "2001:db8::5"],
    ["fe80::/10", "a zone", "fe80::1%eth0", CLIENT, CLIENT],
    ["::1", "an entry with a port", "::1", `${CLIENT}, [::1]:443`, CLIENT],
  ])("with %s, returns the rightmost untrusted address: %s", ([trust, , peer, header, counted]) => {
    expect(identifyClient(peer, header, proxies(trust))).toBe(clientAt(counted));
  });

  const NO_ADDRESSES = ["unknown", "_hidden", "proxy.example", "203.0.113", "203.0.113.9.1", "203.0.113.256"].concat(
    ["203.0.113.09", "0xcb.0.113.9", "203.0.113.9/32", "203.0.113.9:port", "203.0.113.9 10.0.0.1", "for=203.0.113.9"],
    ['"203.0.113.9"', "2001:db8::1::2", "2001:db8::g", "[2001:db8::1", "2001:db8::1]", "[]", "[]:80", ":80", "%eth0"],
    ["é", "x".repeat(7000), ":".repeat(7000)],
  );
  test.for(NO_ADDRESSES)("returns the proxy when the entry is not an address: %j", (claim) => {
    expect(identifyClient("10.0.0.1", claim, proxies("10.0.0.1"))).toBe("10.0.0.1");
  });

  test.for([
    [`${CLIENT}:1234`, CLIENT],
    [`${CLIENT}:1`, CLIENT],
    [`[${CLIENT}]:80`, CLIENT],
    [`::ffff:${CLIENT}`, CLIENT],
    [`[::ffff:${CLIENT}]:1234`, CLIENT],
    ["[2001:db8:1:100::1]:1234", "2001:db8:1:100::1"],
    ["[2001:db8:1:100::1]", "2001:db8:1:100::1"],
    ["2001:db8:1:100::1%eth0", "2001:db8:1:100::1"],
    ["[2001:DB8:1:100::1%1]:80", "2001:db8:1:100::1"],
  ] as const)("ignores the port, brackets and zone of an entry: %s", ([claim, address]) => {
    expect(identifyClient("10.0.0.1", claim, proxies("10.0.0.1"))).toBe(clientAt(address));
  });

  test("returns one client for all connections without a peer address, with any header", () => {
    const trusted = proxies("10.0.0.1");
    const unknown = identifyClient(undefined, CLIENT, trusted);
    expect(identifyClient(undefined, undefined, null)).toBe(unknown);
    expect(identifyClient("/run/api.sock", CLIENT, trusted)).toBe(unknown);
    expect(clientAt(CLIENT)).not.toBe(unknown);
  });

  test.for([
    ["2001:db8::ffff:203.0.113.9", CLIENT],
    ["::203.0.113.9", CLIENT],
    ["::ffff:0:203.0.113.9", CLIENT],
    ["1::ffff:203.0.113.9", CLIENT],
    ["::1", "0.0.0.1"],
    ["::1", "127.0.0.1"],
  ] as const)("does not treat %s as %s, which only looks like it", ([address, other]) => {
    expect(clientAt(address)).not.toBe(clientAt(other));
  });
});

describe("parseNetworks()", () => {
  test.for<[list: string, inside: string[], outside: string[]]>([
    ["192.0.2.7", ["192.0.2.7", "::ffff:192.0.2.7"], ["192.0.2.6", "192.0.2.8"]],
    ["192.0.2.7/32", ["192.0.2.7"], ["192.0.2.6", "192.0.2.8"]],
    ["10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0", "a00::"]],
    // Any address of a network may name it.
    ["10.1.2.3/8", ["10.0.0.0", "10.255.255.255"], ["11.0.0.0"]],
    ["172.16.0.0/12", ["172.16.0.1", "172.31.255.255"], ["172.15.255.255", "172.32.0.0"]],
    ["2001:db8::/56", ["2001:db8::1", "2001:db8:0:ff::"], ["2001:db8:0:100::"]],
    ["::1", ["::1"], ["::2", "127.0.0.1", "0.0.0.1"]],
    ["fd00::/8", ["fd00::1", "fdff::"], ["fc00::1", "fe00::", "10.0.0.1"]],
    [" 127.0.0.1 ,::1,\t10.0.0.0/8", ["127.0.0.1", "::1", "10.2.3.4"], ["127.0.0.2", "::2"]],
  ])("%j trusts exactly these addresses", ([list, inside, outside]) => {
    const trusted = proxies(list);
    for (const peer of inside) expect(identifyClient(peer, CLIENT, trusted), peer).toBe(CLIENT);
    for (const peer of outside) expect(identifyClient(peer, CLIENT, trusted), peer).toBe(clientAt(peer));
  });

  const NO_LISTS = ["", " ", ",", "10.0.0.1,", ",10.0.0.1", "10.0.0.1 10.0.0.2", "10.0.0.1;10.0.0.2", "true"].concat(
    ["1", "*", "all", "loopback", "proxy.example", "10.0.0.0/0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8"],
    ["10.0.0.0/255.0.0.0", "10.0.0", "10.0.0.1:80", "::/0", "fd00::/129", "[::1]"],
    // These peers count as IPv4, and must be listed as IPv4.
    ["::ffff:10.0.0.1", "::ffff:a00:1", "0:0:0:0:0:ffff:0:0/96"],
  );
  test.for(NO_LISTS)("returns null for %j", (list) => {
    expect(parseNetworks(list)).toBeNull();
  });
});
