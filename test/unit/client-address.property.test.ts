import fc from "fast-check";
import { test } from "vitest";
import { identifyClient, parseProxies } from "../../api/limits/client-address.ts";
import { PROPERTY_RUNS } from "../support/random.ts";

const OTHER = "192.0.2.66";

const proxies = (list: string) => {
  const parsed = parseProxies(list);
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

test("all spellings of an IPv6 address are one client, as peer and in X-Forwarded-For", () => {
  const trusted = proxies("10.0.0.1");
  const property = fc.property(fc.oneof({ weight: 4, arbitrary: ipv6 }, { weight: 1, arbitrary: mapped }), (groups) => {
    const client = clientAt(plain(groups));
    for (const spelling of spellingsOf(groups)) {
      const found = [
        clientAt(spelling),
        identifyClient("10.0.0.1", spelling, trusted),
        identifyClient("10.0.0.1", `${OTHER},[${spelling}]:443`, trusted),
      ];
      if (found.some((one) => one !== client)) throw new Error(`${spelling} is ${found.join(" and ")}, not ${client}`);
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
