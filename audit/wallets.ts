import type { Address } from "viem";
import type { RegistryVersion } from "../registry/networks.ts";
import type { Delegation, Side } from "./delegation.ts";

/** Some of these, in random order. */
export const draw = <T>(count: number, values: Iterable<T>): T[] =>
  Array.from(values, (value) => ({ value, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .slice(0, count)
    .map(({ value }) => value);

/**
 * The wallets to compare: of the index, for what it has and should not have, and of events, for what it
 * should have. Half and half, as far as there are enough of both.
 * @param sample how many; null: all
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
  const drawn = new Set([...draw(half, inEvents), ...draw(half, inIndex)]);
  for (const wallet of [...draw(sample, inIndex), ...draw(sample, inEvents)]) {
    if (drawn.size >= sample) break;
    drawn.add(wallet);
  }
  return drawn;
};

type FindList = (registry: RegistryVersion, side: Side, wallet: Address) => readonly Delegation[];

/** The lists of some wallets, out of all delegations. */
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
