import { randomBytes } from "node:crypto";
import { type Address, bytesToHex } from "viem";
import { quoteTable } from "../shards/ponder-tables.ts";
import type { Queryable } from "../shards/queryable.ts";

// Chooses wallets to compare. The log names every wallet that the index has ever had, also those without a delegation now.

/** With at most so many vaults, and so many delegates, all wallets are compared. */
const MAX_ALL = 5_000;
/** Changes at either end of the log whose wallets are compared, and random wallets of each side. */
const NEWEST = 250;
const OLDEST = 250;
const RANDOM = 500;

const DAY_MS = 86_400_000;

type Drawn = { wallets: Address[]; isComplete: boolean };

/** Draws the wallets by which an index is proven: all if they are few, else the newest, the oldest and random ones. */
export const drawWallets = async (client: Queryable, schema: string, chainId: number): Promise<Drawn> => {
  const all = `select * from (select vault as wallet ${fromLog(schema)} group by vault limit ${MAX_ALL + 1}) vaults
    union all select * from (select delegate ${fromLog(schema)} group by delegate limit ${MAX_ALL + 1}) delegates`;
  const wallets = await readWallets(client, all, [chainId]);
  if (wallets.length <= MAX_ALL) return { wallets: distinct(wallets), isComplete: true };
  const ends = [`asc limit ${OLDEST}`, `desc limit ${NEWEST}`].map(
    (order) =>
      `select unnest(array[vault, delegate]) as wallet from (
         select vault, delegate ${fromLog(schema)} order by block_number ${order}
       ) change`,
  );
  // The wallet after a random address.
  const random = ["vault", "delegate"].map(
    (column) =>
      `select (select ${column} ${fromLog(schema)} and ${column} >= point order by ${column} limit 1) as wallet
       from unnest($2::text[]) point`,
  );
  const drawn = await readWallets(client, [...ends, ...random].map((part) => `(${part})`).join(" union all "), [
    chainId,
    Array.from({ length: RANDOM }, drawAddress),
  ]);
  return { wallets: distinct(drawn), isComplete: false };
};

/** Reads the wallets of the changes in some blocks. */
export const readChangedWallets = async (
  client: Queryable,
  schema: string,
  { chainId, after, last }: { chainId: number; after: number; last: number },
): Promise<Address[]> => {
  const changed = `select distinct unnest(array[vault, delegate]) as wallet ${fromLog(schema)} and block_number > $2 and block_number <= $3`;
  return distinct(await readWallets(client, changed, [chainId, after, last]));
};

/** Goes over all wallets of the log by address, at most once a day. It begins anywhere, as processes restart. */
export class WalletRound {
  readonly #client: Queryable;
  readonly #schema: string;
  readonly #chainId: number;
  #first = drawAddress();
  #after = this.#first;
  #isPastEnd = false;
  #startedAt = Number.NEGATIVE_INFINITY;

  constructor(client: Queryable, schema: string, chainId: number) {
    this.#client = client;
    this.#schema = schema;
    this.#chainId = chainId;
  }

  /** Returns the next wallets; none after the last one, until a day is over. */
  async next(count: number, now: number): Promise<Address[]> {
    if (this.#isPastEnd && this.#after >= this.#first) {
      if (now - this.#startedAt < DAY_MS) return [];
      this.#isPastEnd = false;
    }
    if (!this.#isPastEnd && this.#after === this.#first) this.#startedAt = now;
    const wallets = await this.#read(count);
    if (wallets.length < count && !this.#isPastEnd) {
      this.#isPastEnd = true;
      this.#after = "0x";
    } else {
      this.#after = wallets.at(-1) ?? this.#first;
    }
    return wallets;
  }

  async #read(count: number): Promise<Address[]> {
    const next = ["vault", "delegate"].map(
      (column) =>
        `(select ${column} as wallet ${fromLog(this.#schema)} and ${column} > $2 group by ${column} order by ${column} limit $3)`,
    );
    const wallets = await readWallets(this.#client, next.join(" union all "), [this.#chainId, this.#after, count]);
    return distinct(wallets).sort().slice(0, count);
  }
}

const drawAddress = (): Address => bytesToHex(randomBytes(20));

const fromLog = (schema: string) => `from ${quoteTable(schema, "delegation_change")} where chain_id = $1`;

const readWallets = async (client: Queryable, query: string, values: unknown[]): Promise<(Address | null)[]> => {
  const { rows } = await client.query<{ wallet: Address | null }>(query, values);
  return rows.map(({ wallet }) => wallet);
};

const distinct = (wallets: readonly (Address | null)[]): Address[] => [
  ...new Set(wallets.flatMap((wallet) => wallet ?? [])),
];
