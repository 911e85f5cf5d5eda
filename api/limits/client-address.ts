import { BlockList, isIP, isIPv4, isIPv6 } from "node:net";

/** Proxies whose X-Forwarded-For entries are trusted. */
export type TrustedProxies = BlockList;

/**
 * Identifies the client that a request counts for: by its IPv4 address, or by the /56 of its IPv6 address, which is
 * what a household gets.
 * @param peer - the address at the other end of the connection
 * @param forwardedFor - the header X-Forwarded-For, to which each proxy appends its own peer. Read from the right, as
 * far as the proxies are trusted: a client can claim anything further left.
 */
export const identifyClient = (
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
      // Without a usable entry, the proxy itself is the client.
      if (claimed === null) break;
      client = claimed;
    }
  }
  // A new string: a slice of a header would keep the whole header in memory as long as the client is remembered.
  return isIPv4(client) ? client.split(".").join(".") : networkOf(client);
};

/** True if the address at the other end of a connection is in a list. */
export const isPeerListed = (peer: string | undefined, list: BlockList | null): boolean => {
  const address = parseAddress(peer ?? "");
  return list !== null && address !== null && isTrusted(address, list);
};

const isTrusted = (address: string, trusted: TrustedProxies): boolean =>
  trusted.check(address, isIPv4(address) ? "ipv4" : "ipv6");

/** IPv4-mapped IPv6, as Node writes it. */
const MAPPED_IPV4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/;
/** The start of any other spelling of IPv4-mapped IPv6. */
const MAYBE_MAPPED_IPV4 = /^[0:]/;
/** Some proxies append the port: 192.0.2.1:1234, [2001:db8::1]:1234. */
const WITH_PORT = /^(?:\[([^\]]+)\]|([^:]+))(?::\d+)?$/;

/** Parses an address without its port. Returns IPv4 for IPv4-mapped IPv6, and null for anything else. */
const parseAddress = (text: string): string | null => {
  const trimmed = text.trim();
  const [, bracketed, plain] = isIP(trimmed) > 0 ? [] : (WITH_PORT.exec(trimmed) ?? []);
  const address = bracketed ?? plain ?? trimmed;
  if (isIPv4(address)) return address;
  if (!isIPv6(address)) return null;
  const mapped = MAPPED_IPV4.exec(address)?.[1];
  if (mapped) return mapped;
  return MAYBE_MAPPED_IPV4.test(address) ? (unmapIPv4(parseGroups(address)) ?? address) : address;
};

const unmapIPv4 = (groups: readonly number[]): string | null => {
  if (groups[5] !== 0xffff || groups.slice(0, 5).some((group) => group !== 0)) return null;
  return groups
    .slice(6)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join(".");
};

/** Parses the eight groups of an IPv6 address. */
const parseGroups = (address: string): number[] => {
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
  const [a = 0, b = 0, c = 0, d = 0] = parseGroups(address);
  return `${[a, b, c, d & 0xff00].map((group) => group.toString(16)).join(":")}::/56`;
};

/** A trusted network can claim any address. No private network is larger than `minPrefix` allows. */
const IPV4 = { family: "ipv4", minPrefix: 8, bits: 32 } as const;
const IPV6 = { family: "ipv6", minPrefix: 7, bits: 128 } as const;
const CIDR = /^([^/]+)(?:\/(\d{1,3}))?$/;

/** Parses a comma-separated list of addresses and networks. Returns null if it is malformed or too wide. */
export const parseNetworks = (text: string): BlockList | null => {
  const list = new BlockList();
  for (const entry of text.split(",")) {
    const [, address = "", prefix] = CIDR.exec(entry.trim()) ?? [];
    const { family, minPrefix, bits } = isIPv4(address) ? IPV4 : IPV6;
    const length = prefix === undefined ? bits : Number(prefix);
    if (isIP(address) === 0 || length < minPrefix || length > bits || parseAddress(address) !== address) return null;
    list.addSubnet(address, length, family);
    // An IPv6 network that includes all of IPv4, mapped.
    if (family === "ipv6" && isTrusted("0.0.0.0", list)) return null;
  }
  return list;
};
