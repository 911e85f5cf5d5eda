import type { Address } from "viem";
import type { Delegation, Side } from "../../indexer/verification/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";

/** Draws values at random. */
export const drawRandom = <T>(count: number, values: Iterable<T>): T[] =>
  Array.from(values, (value) => ({ value, order: Math.random() }))
    .sort((a, b) => a.order - b.order)
    .slice(0, count)
    .map(({ value }) => value);

/**
 * Draws the wallets to compare: half from the index, which may have too much, and half from events, which the
 * index may lack. If one half has too few, the other fills up.
 * @param sample - number of wallets; null: all
 */
export const drawWallets = (
  delegations: readonly Delegation[],
  inEvents: ReadonlySet<Address>,
  sample: number | null,
): Set<Address> => {
  const inIndex = new Set<Address>();
  for (const { vault, delegate } of delegations) inIndex.add(vault).add(delegate);
  if (sample === null) return new Set([...inIndex, ...inEvents]);

  const half = Math.ceil(sample / 2);
  const drawn = new Set([...drawRandom(half, inEvents), ...drawRandom(half, inIndex)]);
  for (const wallet of [...drawRandom(sample, inIndex), ...drawRandom(sample, inEvents)]) {
    if (drawn.size >= sample) break;
    drawn.add(wallet);
  }
  return drawn;
};

type FindList = (registry: RegistryVersion, side: Side, wallet: Address) => readonly Delegation[];

/** Groups delegations into the lists of the given wallets. */
export const groupByWallet = (delegations: readonly Delegation[], wallets: ReadonlySet<Address>): FindList => {
  const lists = new Map<string, Delegation[]>();
  const add = (delegation: Delegation, side: Side, wallet: Address) => {
    if (!wallets.has(wallet)) return;
    const key = `${delegation.registry} ${side} ${wallet}`;
    const list = lists.get(key);
    if (list) list.push(delegation);
    else lists.set(key, [delegation]);
  };
  for (const delegation of delegations) {
    add(delegation, "outgoing", delegation.vault);
    add(delegation, "incoming", delegation.delegate);
  }
  return (registry, side, wallet) => lists.get(`${registry} ${side} ${wallet}`) ?? [];
};
