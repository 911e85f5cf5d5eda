import { BlockList, isIPv4 } from "node:net";

const NOT_PUBLIC_V4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10", // carrier-grade NAT
  "127.0.0.0/8",
  "168.63.129.16/32", // a cloud's services for its machines
  "169.254.0.0/16", // link-local, with the metadata of machines
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24", // 6to4 relays
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, and broadcast
];

/** Public IPv6 addresses. What embeds an IPv4 address, mapped or translated, is elsewhere. */
const PUBLIC_V6 = "2000::/3";

const NOT_PUBLIC_V6 = [
  "2001::/23", // protocols, and Teredo, which embeds IPv4
  "2001:db8::/32",
  "2002::/16", // 6to4, which embeds IPv4
  "2620:4f:8000::/48",
  "3fff::/20",
];

const createList = (networks: readonly string[]): BlockList => {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", prefix] = network.split("/");
    list.addSubnet(address, Number(prefix), familyOf(address));
  }
  return list;
};

const familyOf = (address: string) => (isIPv4(address) ? "ipv4" : "ipv6");

const publicV6 = createList([PUBLIC_V6]);
const notPublic = createList([...NOT_PUBLIC_V4, ...NOT_PUBLIC_V6]);

/** True for an address that anyone on the internet can reach, and which belongs to no network of our own. */
export const isPublicAddress = (address: string): boolean => {
  const family = familyOf(address);
  if (family === "ipv6" && !publicV6.check(address, "ipv6")) return false;
  return !notPublic.check(address, family);
};

/** The host of a URL, without the brackets of an IPv6 address. */
export const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, "");

/** What every receiver needs, except in networks of the operator. */
export const hasPublicForm = ({ protocol, port }: URL): boolean => protocol === "https:" && port === "";

export const isInNetworks = (address: string, networks: BlockList | null): boolean =>
  networks?.check(address, familyOf(address)) ?? false;
