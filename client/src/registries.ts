import type { Address, Hex, RegistryVersion } from "./questions.ts";

export type Addresses = { v1: Address; v2: Address };

const ADDRESSES: Addresses = {
  v1: "0x00000000000076A84feF008CDAbe6409d2FE638B",
  v2: "0x00000000000000447e69651d841bD8D104Bed493",
};

/** On networks with ZKsync's virtual machine, the v2 registry has another address. */
const ZKSYNC: Partial<Addresses> = { v2: "0x0000000059A24EB229eED07Ac44229DB56C5d797" };
const ZKSYNC_CHAINS = [324, 2741, 61166, 300, 11124];

/** True for a network with ZKsync's virtual machine, whose state has a trie of another kind. */
export const isZksync = (chainId: number): boolean => ZKSYNC_CHAINS.includes(chainId);

/**
 * The address of a registry.
 * @param elsewhere - of registries at other addresses
 */
export const findRegistry = (chainId: number, registry: RegistryVersion, elsewhere: Partial<Addresses> = {}): Address =>
  ({ ...ADDRESSES, ...(isZksync(chainId) && ZKSYNC), ...elsewhere })[registry];

/** Rights as the registry has them, from the same texts as the service takes. A text is padded with zeros. */
export const toBytes32 = (rights: string): Hex => {
  if (/^0x[0-9a-f]{64}$/i.test(rights)) return rights.toLowerCase() as Hex;
  const bytes = new TextEncoder().encode(/^0x$/i.test(rights) ? "" : rights);
  if (bytes.length > 31 || /^0x./i.test(rights)) {
    throw new RangeError(`A right is 0x with 64 hex digits, or a text of at most 31 bytes, not ${rights}.`);
  }
  return `0x${[...bytes]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("")
    .padEnd(64, "0")}`;
};
