import { BlockList, isIP, isIPv4, isIPv6 } from "node:net";

/** Proxies whose word about the client's address counts. */
export type TrustedProxies = BlockList;

/**
 * Which client a request is counted for: by its IPv4 address, or the /56 of its IPv6 address, which is
 * what a household gets.
 * @param peer - who is at the other end of the connection
 * @param forwardedFor - the header X-Forwarded-For, where each proxy appends its own peer. It counts as far
 * as the proxies are trusted, from the right: what is left of that is what anybody may claim.
 */
export const clientOf = (
  peer: string | undefined,
  forwardedFor: string | undefined,
  trusted: TrustedProxies | null,
): string => {
  let client = parseAddress(peer ?? "");
  if (client === null) return "unknown";
  if (trusted !== null && forwardedFor !== undefined) {
    const claims = forwardedFor.split(",");
    while (isTrusted(client, trusted) && claims.length > 0) {
      const claimed = parseAddress(claims.pop() ?? "");
      // A proxy that says nothing of use speaks for itself.
      if (claimed === null) break;
      client = claimed;
    }
  }
  // Put together anew: a part of a header would keep all of it in memory for as long as the client is remembered.
  return isIPv4(client) ? client.split(".").join(".") : networkOf(client);
};

const isTrusted = (address: string, trusted: TrustedProxies): boolean =>
  trusted.check(address, isIPv4(address) ? "ipv4" : "ipv6");

/** IPv4 in IPv6, as Node writes it, and how any other spelling of it begins. */
const MAPPED_IPV4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/;
const MAYBE_IPV4 = /^[0:]/;
/** Some proxies append the port: 192.0.2.1:1234, [2001:db8::1]:1234. */
const WITH_PORT = /^(?:\[([^\]]+)\]|([^:]+))(?::\d+)?$/;

/** An address alone; IPv4 where it is IPv4 in IPv6's clothes. Null if it is none. */
const parseAddress = (text: string): string | null => {
  const trimmed = text.trim();
  const [, bracketed, plain] = isIP(trimmed) > 0 ? [] : (WITH_PORT.exec(trimmed) ?? []);
  const address = bracketed ?? plain ?? trimmed;
  if (isIPv4(address)) return address;
  if (!isIPv6(address)) return null;
  const mapped = MAPPED_IPV4.exec(address)?.[1];
  if (mapped) return mapped;
  return MAYBE_IPV4.test(address) ? (mappedIPv4(groupsOf(address)) ?? address) : address;
};

const mappedIPv4 = (groups: readonly number[]): string | null => {
  if (groups[5] !== 0xffff || groups.slice(0, 5).some((group) => group !== 0)) return null;
  return groups
    .slice(6)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join(".");
};

/** The eight groups of an IPv6 address. */
const groupsOf = (address: string): number[] => {
  const [withoutZone = ""] = address.split("%");
  const inHex = withoutZone.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, a, b, c, d) =>
    [a * 256 + Number(b), c * 256 + Number(d)].map((group) => group.toString(16)).join(":"),
  );
  const [head = [], tail = []] = inHex
    .split("::")
    .map((part) => (part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16))));
  return [...head, ...new Array(8 - head.length - tail.length).fill(0), ...tail];
};

/** The /56 that an IPv6 address belongs to. */
const networkOf = (address: string): string => {
  const [a = 0, b = 0, c = 0, d = 0] = groupsOf(address);
  return `${[a, b, c, d & 0xff00].map((group) => group.toString(16)).join(":")}::/56`;
};

/** Whoever is trusted may claim any address: nobody's own network is larger than the shortest prefix says. */
const IPV4 = { family: "ipv4", shortest: 8, bits: 32 } as const;
const IPV6 = { family: "ipv6", shortest: 7, bits: 128 } as const;
const CIDR = /^([^/]+)(?:\/(\d{1,3}))?$/;

/** Reads a list of addresses and networks with commas. Returns null where it is not one. */
export const parseProxies = (text: string): TrustedProxies | null => {
  const list = new BlockList();
  for (const entry of text.split(",")) {
    const [, address = "", prefix] = CIDR.exec(entry.trim()) ?? [];
    const { family, shortest, bits } = isIPv4(address) ? IPV4 : IPV6;
    const length = prefix === undefined ? bits : Number(prefix);
    if (isIP(address) === 0 || length < shortest || length > bits || parseAddress(address) !== address) return null;
    list.addSubnet(address, length, family);
    // An IPv6 network in which all of IPv4 is mapped.
    if (family === "ipv6" && isTrusted("0.0.0.0", list)) return null;
  }
  return list;
};
