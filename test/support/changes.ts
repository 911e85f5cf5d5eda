import type pg from "pg";
import { pino } from "pino";
import { expect, onTestFinished } from "vitest";
import { Database } from "../../api/database/database.ts";
import { parseApiSettings } from "../../api/settings.ts";
import { Shards } from "../../api/shards/shards.ts";
import type { operations } from "../../client/src/openapi.ts";
import { type Api, createSampleDatabase, FRESH_FOR_A_DAY } from "./api.ts";
import { readServedSchema } from "./index-copy.ts";
import { rebuildState, type State } from "./index-state.ts";
import { connectClient } from "./setup.ts";
import { setFinalBlock } from "./wallets.ts";

// Reads live changes, and folds them into the delegations that they leave.

export type ChangesPage = operations["changes"]["responses"][200]["content"]["application/json"];
export type LiveChange = ChangesPage["changes"][number];

export type StreamEvent = { id: string } & (
  | { event: "change"; data: LiveChange }
  | { event: "undo"; data: ChangesPage["undo"][number] }
  | { event: "progress"; data: Pick<ChangesPage, "blocks"> }
);

/** @param query - with a question mark */
export const readChangesPage = async (api: Pick<Api, "get">, query: string): Promise<ChangesPage> => {
  const response = await api.get(`/changes${query}`);
  const body = await response.text();
  expect(response.status, body).toBe(200);
  return JSON.parse(body);
};

/** Reads pages until one has everything, and returns all of them. */
export const readAllPages = async (api: Pick<Api, "get">, query: string, cursor = "start"): Promise<ChangesPage[]> => {
  const pages = [await readChangesPage(api, `${query}&cursor=${cursor}`)];
  for (;;) {
    const next: ChangesPage = await readChangesPage(api, `${query}&cursor=${pages.at(-1)?.next}`);
    const isLast = next.changes.length === 0 && next.undo.length === 0 && Object.keys(next.blocks).length > 0;
    pages.push(next);
    if (isLast) return pages;
  }
};

const parseEvent = (text: string): StreamEvent | undefined => {
  const fields = Object.fromEntries(
    text.split("\n").map((line) => [line.split(":", 1)[0], line.replace(/^\w*: ?/, "")]),
  );
  return fields.event
    ? ({ event: fields.event, id: fields.id, data: JSON.parse(fields.data ?? "") } as StreamEvent)
    : undefined;
};

/** Opens a stream until the test is over. Iterating over it ends when the service ends it or the connection is lost. */
export const openStream = async (api: Pick<Api, "get">, query: string, lastEventId?: string) => {
  const connection = new AbortController();
  const headers = { Accept: "text/event-stream", ...(lastEventId && { "Last-Event-ID": lastEventId }) };
  const response = await api.get(`/changes${query}`, { headers, signal: connection.signal });
  onTestFinished(() => connection.abort());
  if (response.status !== 200 || !response.body) throw new Error(`${response.status} ${await response.text()}`);
  const texts = response.body.pipeThrough(new TextDecoderStream());
  const events = (async function* () {
    let rest = "";
    try {
      for await (const text of texts) {
        const parts = (rest + text).split("\n\n");
        rest = parts.pop() ?? "";
        for (const part of parts) {
          const event = parseEvent(part);
          if (event) yield event;
        }
      }
    } catch (error) {
      if (!connection.signal.aborted && !(error instanceof TypeError)) throw error;
    }
  })();
  return {
    headers: response.headers,
    events,
    close: () => connection.abort(),
    /** Reads events up to the first one that is wanted. */
    readUntil: async (isWanted: (event: StreamEvent) => boolean): Promise<StreamEvent[]> => {
      const read: StreamEvent[] = [];
      for (;;) {
        const { value, done } = await events.next();
        if (done) throw new Error(`The stream ended after ${read.length} events.`);
        read.push(value);
        if (isWanted(value)) return read;
      }
    },
  };
};

/** Opens the log of the samples for the parts of the API that read it. No block is final, and the caller may change all of it. */
export const openSampleLog = async () => {
  const databaseUrl = await createSampleDatabase();
  const client = await connectClient(databaseUrl);
  // Without Ponder's triggers.
  await client.query("set session_replication_role = replica");
  const schema = await readServedSchema(client);
  await setFinalBlock(client, schema, 0);
  const database = new Database(databaseUrl, pino({ enabled: false }));
  onTestFinished(() => database.close());
  const shards = new Shards(database, parseApiSettings(FRESH_FOR_A_DAY));
  await shards.refresh();
  return { client, schema, database, shards };
};

/** Adds a block with a delegation of a wallet, as the indexer does. */
export const addBlock = async (database: pg.Client, vault: string): Promise<number> => {
  const schema = await readServedSchema(database);
  // Ponder's triggers need its session.
  await database.query("set session_replication_role = replica");
  const { rows } = await database.query(
    `with block as (
       update ${schema}.indexed_block set number = number + 1, timestamp = extract(epoch from now())::bigint
       where chain_id = 1 returning number, timestamp
     )
     insert into ${schema}.delegation_change
     select (jsonb_populate_record(c, jsonb_build_object(
       'vault', $1::text, 'block_number', block.number, 'block_timestamp', block.timestamp))).*
     from block, (select c from ${schema}.delegation_change c where chain_id = 1 and type = 'ALL' and active limit 1) one
     returning block_number`,
    [vault.toLowerCase()],
  );
  return Number(rows[0].block_number);
};

export const isProgress = ({ event }: StreamEvent): boolean => event === "progress";

const placeOf = ({ blockNumber, logIndex, ordinal }: LiveChange) => [blockNumber, logIndex, ordinal] as const;

const isAfter = (a: LiveChange, b: LiveChange): boolean => {
  const [place, other] = [placeOf(a), placeOf(b)];
  const index = place.findIndex((number, index) => number !== other[index]);
  return index !== -1 && Number(place[index]) > Number(other[index]);
};

/** Applies changes and undos of one network, and rejects what is not in order, twice, or beyond a promise. */
export class Fold {
  #changes: LiveChange[] = [];
  #reached = -1;
  undos = 0;

  get changes(): readonly LiveChange[] {
    return this.#changes;
  }

  change(change: LiveChange): void {
    const last = this.#changes.at(-1);
    if (last && !isAfter(change, last)) throw new Error(`${placeOf(change)} came after ${placeOf(last)}.`);
    if (change.blockNumber <= this.#reached) throw new Error(`${placeOf(change)} came after block ${this.#reached}.`);
    this.#changes.push(change);
  }

  undo({ afterBlock }: { afterBlock: number }): void {
    this.undos++;
    this.#changes = this.#changes.filter(({ blockNumber }) => blockNumber <= afterBlock);
    this.#reached = Math.min(this.#reached, afterBlock);
  }

  progress(number: number): void {
    if (number < this.#reached) throw new Error(`Block ${number} came after block ${this.#reached}.`);
    this.#reached = number;
  }

  apply({ event, data }: StreamEvent, chainId: number): void {
    if (event === "change") this.change(data);
    else if (event === "undo") this.undo(data);
    else if (data.blocks[chainId]) this.progress(data.blocks[chainId].number);
  }

  /** The delegations that are left. */
  readState(): State {
    const lower = <Text extends string>(text: string) => text.toLowerCase() as Text;
    const log = this.#changes.map((change) => ({
      registry: change.registry,
      block_number: BigInt(change.blockNumber),
      active: change.kind !== "revoked",
      amount: BigInt(change.amount ?? 0),
      vault: lower<`0x${string}`>(change.vault),
      delegate: lower<`0x${string}`>(change.delegate),
      type: (change.tokenStandard ?? change.type) as "ALL",
      contract: lower<`0x${string}`>(change.contract ?? `0x${"0".repeat(40)}`),
      tokenId: BigInt(change.tokenId ?? 0),
      rights: change.rights as `0x${string}`,
    }));
    return rebuildState(log, BigInt(Number.MAX_SAFE_INTEGER));
  }
}
