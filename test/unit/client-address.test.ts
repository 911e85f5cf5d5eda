import { describe, expect, test } from "vitest";
import { identifyClient, parseProxies } from "../../api/limits/client-address.ts";

const proxies = (list: string) => {
  const parsed = parseProxies(list);
  if (parsed === null) throw new Error(`${list} is not a list of proxies.`);
  return parsed;
};

/** Identifies the client at an address without a proxy. */
const clientAt = (address: string) => identifyClient(address, undefined, null);

const PEER = "198.51.100.7";
const CLIENT = "203.0.113.9";
const OTHER = "192.0.2.66";

/** The peer, its header, and the counted address. */
type Case = readonly [name: string, peer: string, header: string | undefined, counted: string];

describe("identifyClient()", () => {
  const WITHOUT_TRUST: Case[] = [
    ["no header", PEER, undefined, PEER],
    ["a header", PEER, CLIENT, PEER],
    ["a header with many entries", PEER, `${OTHER}, ${CLIENT}, 127.0.0.1`, PEER],
    ["a header that names the peer", PEER, PEER, PEER],
    ["a peer on this machine", "127.0.0.1", CLIENT, "127.0.0.1"],
  ];
  test.for(WITHOUT_TRUST)("returns the peer without trusted proxies: %s", ([, peer, header, counted]) => {
    expect(identifyClient(peer, header, null)).toBe(counted);
  });

  const ONE_PROXY: Case[] = [
    ["no header, the proxy itself asks", "10.0.0.1", undefined, "10.0.0.1"],
    ["an empty header", "10.0.0.1", "", "10.0.0.1"],
    ["a header of blanks and commas", "10.0.0.1", " , ,", "10.0.0.1"],
    ["its client", "10.0.0.1", CLIENT, CLIENT],
    ["its client, with blanks around", "10.0.0.1", ` \t${CLIENT} `, CLIENT],
    ["a forged entry", "10.0.0.1", `${OTHER}, ${CLIENT}`, CLIENT],
    ["a forged entry without a blank", "10.0.0.1", `${OTHER},${CLIENT}`, CLIENT],
    ["an entry forged as if by the proxy", "10.0.0.1", `${OTHER}, 10.0.0.1, ${CLIENT}`, CLIENT],
    ["forged garbage", "10.0.0.1", `<script>, ,,;=, %00, unknown, ${CLIENT}`, CLIENT],
    ["a header from another peer", PEER, CLIENT, PEER],
    ["a header from a neighbour of the proxy", "10.0.0.2", CLIENT, "10.0.0.2"],
    ["another peer that names the proxy", PEER, "10.0.0.1", PEER],
    ["another peer that names a client and the proxy", PEER, `${CLIENT}, 10.0.0.1`, PEER],
  ];
  test.for(ONE_PROXY)("returns the entry that a trusted proxy appended: %s", ([, peer, header, counted]) => {
    expect(identifyClient(peer, header, proxies("10.0.0.1"))).toBe(counted);
  });

  const CHAIN: Case[] = [
    ["the client", "10.0.0.2", `${CLIENT}, 10.0.0.1`, CLIENT],
    ["a forged entry", "10.0.0.2", `${OTHER}, ${CLIENT}, 10.0.0.1`, CLIENT],
    ["an entry forged as if by the chain", "10.0.0.2", `${OTHER}, 10.0.0.1, ${CLIENT}, 10.0.0.1`, CLIENT],
    ["a client of the inner proxy", "10.0.0.2", CLIENT, CLIENT],
    ["a client without any proxy", CLIENT, `${OTHER}, 10.0.0.1`, CLIENT],
    ["only proxies: the first of them", "10.0.0.3", "10.0.0.1, 10.0.0.2", "10.0.0.1"],
    ["a proxy that names no address: itself", "10.0.0.2", `${CLIENT}, unknown, 10.0.0.1`, "10.0.0.1"],
    ["a proxy that names nothing: itself", "10.0.0.2", `${CLIENT},, 10.0.0.1`, "10.0.0.1"],
    ["an IPv6 client", "10.0.0.2", "2001:db8:1:100::1, 10.0.0.1", "2001:db8:1:100::1"],
  ];
  test.for(CHAIN)("returns the rightmost untrusted entry behind several proxies: %s", ([, peer, header, counted]) => {
    expect(identifyClient(peer, header, proxies("10.0.0.0/24"))).toBe(clientAt(counted));
  });

  const IPV6_PROXIES: (readonly [trust: string, ...Case])[] = [
    ["2001:db8::1", "one address", "2001:db8::1", CLIENT, CLIENT],
    ["2001:DB8:0::1", "another spelling", "2001:db8::1", CLIENT, CLIENT],
    ["2001:db8::1", "its neighbour", "2001:db8::2", CLIENT, "2001:db8::2"],
    ["fd00::/8", "a network", "fdab::7", `${OTHER}, ${CLIENT}`, CLIENT],
    ["fd00::/8", "outside of the network", "fe00::7", CLIENT, "fe00::7"],
    ["127.0.0.1,::1", "this machine", "::1", CLIENT, CLIENT],
    [
      "10.0.0.0/8, fd00::/8",
      "IPv4 and IPv6 in one chain",
      "fd00::1",
      `${OTHER}, 2001:db8::5, fd00::2, 10.1.1.1`,
      "2001:db8::5",
    ],
    ["fe80::/10", "a zone", "fe80::1%eth0", CLIENT, CLIENT],
    ["::1", "an entry with a port", "::1", `${CLIENT}, [::1]:443`, CLIENT],
  ];
  test.for(IPV6_PROXIES)("returns the client behind IPv6 proxies %s: %s", ([trust, , peer, header, counted]) => {
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
  ])("treats IPv4-mapped IPv6 as IPv4, as peer, entry and proxy: %s", (spelling) => {
    expect(clientAt(spelling)).toBe(CLIENT);
    expect(identifyClient("10.0.0.1", `${OTHER}, ${spelling}`, proxies("10.0.0.1"))).toBe(CLIENT);
    expect(identifyClient(spelling, OTHER, proxies(CLIENT))).toBe(OTHER);
    expect(identifyClient(spelling, OTHER, proxies("203.0.113.0/24"))).toBe(OTHER);
    expect(identifyClient("10.0.0.1", `${OTHER}, ${spelling}`, proxies(`10.0.0.1,${CLIENT}`))).toBe(OTHER);
  });

  test.for(["2001:db8::ffff:203.0.113.9", "::203.0.113.9", "::ffff:0:203.0.113.9", "1::ffff:203.0.113.9"])(
    "does not treat %s as IPv4, which only looks mapped",
    (address) => {
      expect(clientAt(address)).not.toBe(CLIENT);
    },
  );

  test.for([
    ["2001:db8:1:100::1", "2001:db8:1:100::2", true],
    ["2001:db8:1:100::1", "2001:db8:1:1ff:ffff:ffff:ffff:ffff", true],
    ["2001:db8:1::", "2001:db8:1:ff::1", true],
    ["2001:db8:1:100::1", "2001:0DB8:0001:0100:0000:0000:0000:0001", true],
    ["fe80::1%eth0", "fe80::1%eth1", true],
    ["fe80::1%eth0", "fe80::1", true],
    ["::", "::1", true],
    ["2001:db8:1:1ff::1", "2001:db8:1:200::1", false],
    ["2001:db8:1:100::1", "2001:db8:1:0ff::1", false],
    ["2001:db8:1:100::1", "2001:db8:2:100::1", false],
    ["2001:db8:1:100::1", "2002:db8:1:100::1", false],
    ["::1", "::ffff:0.0.0.1", false],
    ["::1", "127.0.0.1", false],
  ] as const)("groups IPv6 by /56: %s and %s are one client: %s", ([one, other, isOne]) => {
    expect(clientAt(one) === clientAt(other)).toBe(isOne);
  });
});

describe("parseProxies()", () => {
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
    expect(parseProxies(list)).toBeNull();
  });
});
