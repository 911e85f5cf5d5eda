import { createRoute, z } from "@hono/zod-openapi";
import type { ApiApp, ApiContext } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { badParameters, defineParameters } from "../contract/define-parameters.ts";
import { coldWallet, contract, hotWallet, SAMPLES, wallet } from "../contract/parameters.ts";
import { describeChanges, OPTIONAL_KEY } from "../contract/responses.ts";
import { overloaded } from "../database/problems.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import { Problem } from "../problem.ts";
import { respond } from "../respond.ts";
import { orProblem } from "../shards/ask-per-shard.ts";
import type { Shards } from "../shards/shards.ts";
import { renderInSlices } from "../slices.ts";
import {
  explainUnanswered,
  findSchema,
  findUnknownNetworks,
  showUnanswered,
  type Unanswered,
} from "../wallets/ask-networks.ts";
import { ChangeSchema, EXAMPLE_CHANGE, EXAMPLE_PAGE, pageFields } from "../wallets/wallet-json.ts";
import {
  findNetworks,
  type NetworkValues,
  networkQuery,
  validateNetworks,
  versionsOf,
} from "../wallets/wallet-parameters.ts";
import {
  type ChangeCursor,
  changeCursor,
  encodeChangeCursor,
  type Position,
  parseChangeCursor,
  START,
  WRONG_CHANGE_CURSOR,
} from "./change-cursor.ts";
import type { ChangeFeed } from "./change-feed.ts";
import { ChangeStream, showLiveChange } from "./change-stream.ts";
import { type Filters, type Finality, rowsToRead } from "./filters.ts";
import { type Asked, type NetworkChanges, nameChanges, type ReachedBlock, readChanges } from "./read-changes.ts";
import { StreamPlaces } from "./stream-places.ts";

/** Rows to read for a page if not all of them are listed. */
const ROWS_TO_SEARCH = 2_000;

const finality = z.enum(["final", "latest"], { error: "must be final or latest" }).default("final").openapi({
  description: "`final`: changes that no reorg can undo. `latest`: at once, and an `undo` after a reorg.",
  example: "latest",
});

const type = z
  .enum(["ALL", "CONTRACT", "TOKEN"], { error: "must be ALL, CONTRACT or TOKEN" })
  .optional()
  .openapi({ description: "The type of the delegations." });

const { chainId, registry, partial, limit } = networkQuery;

export const LiveChange = ChangeSchema.omit({ direction: true })
  .extend({ final: z.boolean().openapi({ description: "True if no reorg can undo it." }) })
  .openapi("Change");

const { direction: _, ...change } = EXAMPLE_CHANGE;
export const EXAMPLE_LIVE_CHANGE = { ...change, final: false };
const EXAMPLE_CURSOR = "NQ6k5qK1vbk3WkZp~tnz1c0~1.ci0xs";
const EXAMPLE_BLOCKS = { 1: { ...EXAMPLE_PAGE.blocks[1], finalized: EXAMPLE_PAGE.blocks[1].number - 60 } };

const showExample = (event: string, data: object) =>
  `event: ${event}\nid: ${EXAMPLE_CURSOR}\ndata: ${JSON.stringify(data)}\n\n`;

const page = z.object({
  undo: z.array(z.object({ chainId: z.int(), afterBlock: z.int() })).openapi({
    description: "With `finality=latest`: all changes of these networks after these blocks are void, before `changes`.",
  }),
  changes: z.array(LiveChange),
  blocks: z
    .record(
      z.string(),
      z.object({
        number: z.int(),
        timestamp: z.int(),
        final: z.boolean(),
        finalized: z.int().openapi({ description: "The newest final block: no `undo` names an earlier one." }),
      }),
    )
    .openapi({
      description:
        "By chain id: every change up to this block has been sent. Other networks have more on the next page.",
    }),
  unanswered: pageFields.unanswered,
  next: z.string().openapi({ description: "The cursor to go on with, also on the last page." }),
});

type Parts = Pick<Dependencies, "database" | "shards" | "log"> & { feed: ChangeFeed };

type Values = Filters &
  Pick<NetworkValues, "chainId" | "chains" | "limit" | "partial"> & {
    finality: Finality;
    cursor?: ChangeCursor | "start" | undefined;
  };

/** What to be told of. */
export const changeQuery = {
  chainId,
  registry,
  wallet: wallet
    .optional()
    .openapi({ description: "A wallet on either side, in any letter case.", example: SAMPLES.vault }),
  vault: coldWallet().optional(),
  delegate: hotWallet(undefined, SAMPLES.guest).optional(),
  contract: contract.optional(),
  type,
  finality,
};
const query = { ...changeQuery, cursor: changeCursor, limit, partial };

type AskedNetworks = Partial<Pick<NetworkValues, "chainId" | "registry">>;

/** A question, and where its answer starts. */
type Started = {
  filters: Filters;
  finality: Finality;
  name: string;
  since: number;
  findStart: (chainId: number) => Position | "now" | null;
} & Pick<ChangeCursor, "positions" | "unknown">;

/** Adds the changes of all delegations, as pages and as a stream. */
export const addChanges = (app: ApiApp, parts: Parts): void => {
  const { shards, feed } = parts;
  const places = new StreamPlaces();
  feed.load.countReaders = () => places.count;
  const derive = (values: AskedNetworks) => ({ chains: findNetworks(shards, values) });
  // The cursor is not one of a list.
  const validate = ({ cursor: _, ...values }: AskedNetworks & Pick<NetworkValues, "chains"> & { cursor?: unknown }) =>
    validateNetworks(shards, values);
  const parameters = defineParameters({ params: {}, query, lists: ["chainId"], derive, validate });
  const route = createRoute({
    method: "get",
    path: "/changes",
    operationId: "changes",
    tags: ["changes"],
    summary: "Live changes",
    description:
      "Each delegation that is made, changed in amount or revoked, in the order of each network. With `Accept: text/event-stream` a stream of events: `change`, `undo` (all changes of a network after a block are void) and `progress` (every change up to these blocks has been sent). Each has an `id`, with which another stream (`Last-Event-ID`) or page (`cursor`) goes on. `limit` and `partial` are for pages.",
    security: OPTIONAL_KEY,
    request: parameters.request,
    responses: describeChanges(
      page,
      { undo: [], changes: [EXAMPLE_LIVE_CHANGE], blocks: EXAMPLE_BLOCKS, unanswered: [], next: EXAMPLE_CURSOR },
      showExample("change", EXAMPLE_LIVE_CHANGE) + showExample("progress", { blocks: EXAMPLE_BLOCKS }),
    ),
  });
  addOperation(app, route, (c) => {
    const values = parameters.read(c);
    const isStream = c.req.header("Accept")?.includes("text/event-stream") ?? false;
    const started = start(values, shards, isStream ? readLastEventId(c) : undefined);
    return isStream ? answerStream(c, parts, places, values, started) : answerPage(c, parts, values, started);
  });
};

/** An `EventSource` sends it when it connects again, with the cursor with which it connected first. */
const readLastEventId = (c: ApiContext): ChangeCursor | undefined => {
  const text = c.req.header("Last-Event-ID");
  if (!text) return undefined;
  const cursor = parseChangeCursor(text);
  if (!cursor) throw badParameters([{ ...WRONG_CHANGE_CURSOR, parameter: "Last-Event-ID" }]);
  return cursor;
};

const start = (
  { chainId, chains, finality, cursor: given, limit: _, partial: __, ...filters }: Values,
  { maxLagSeconds }: Shards,
  lastEventId: ChangeCursor | undefined,
): Started => {
  const cursor = lastEventId ?? given;
  const { registry, wallet, vault, delegate, contract, type } = filters;
  const name = nameChanges(chainId, finality, filters);
  const asked = { registry, wallet, vault, delegate, contract, type };
  const question = { filters: asked, finality, name, positions: new Map<number, Position>(), unknown: [] };
  // A network that cannot be answered for now has later all changes of the time in which it could not be.
  if (!cursor) {
    const since = Math.max(0, Math.floor(Date.now() / 1000) - maxLagSeconds);
    return { ...question, since, findStart: () => "now" };
  }
  if (cursor === START) return { ...question, since: 0, findStart: () => null };
  if (cursor.question !== name) {
    throw badParameters([{ ...WRONG_CHANGE_CURSOR, ...(lastEventId && { parameter: "Last-Event-ID" }) }]);
  }
  const { since, unknown } = cursor;
  // Anyone can write a cursor with other networks.
  const isAsked = (id: number) => chainId.length === 0 || chainId.includes(id);
  const positions = new Map([...cursor.positions].filter(([id]) => isAsked(id)));
  return { ...question, since, unknown, positions, findStart: (id) => positions.get(id) ?? null };
};

const JSON_HEADERS = { "Content-Type": "application/json", "Cache-Control": "no-store", Vary: "Accept" };

const answerPage = async (
  c: ApiContext,
  { database, shards }: Parts,
  { chainId, chains, limit, partial }: Values,
  { filters, finality, name, since, findStart, ...cursor }: Started,
): Promise<Response> => {
  // Before the first wait, as a refresh of the shards may find more networks.
  const unanswered = findUnknownNetworks(shards, { chainId, cursor: undefined });
  const asked = chains.map((chainId): Asked => ({ chainId, position: findStart(chainId) }));
  const rows = rowsToRead(filters, limit, ROWS_TO_SEARCH);
  const found = await readChanges(database, shards, { filters, finality, since, rows, pool: "lists" }, asked);
  const read: NetworkChanges[] = [];
  // Networks that are not known at the moment keep their place.
  const positions = new Map(cursor.positions);
  for (const each of asked) {
    const changes = found.get(each);
    if (changes instanceof Problem) unanswered.push({ chainId: each.chainId, problem: changes });
    else if (changes) read.push(changes);
  }
  requireAnswers(unanswered, { isPartial: partial && read.length > 0, hasOthers: read.length > 0 });

  const { sent, changes } = takeChanges(read, limit);
  for (const { chainId, position } of sent) if (position) positions.set(chainId, position);
  const undo = sent.flatMap(({ chainId, undoTo }) => (undoTo ? [{ chainId, afterBlock: undoTo.block }] : []));
  const blocks: Record<number, ReachedBlock> = {};
  for (const { chainId, reached } of sent) if (reached) blocks[chainId] = reached;
  const texts = [...positions.values()].map(({ text }) => text);
  const next = encodeChangeCursor(name, since, [...texts, ...cursor.unknown]);
  const shown = await renderInSlices(changes, (change) => JSON.stringify(showLiveChange(change)));
  const before = JSON.stringify({ undo }).slice(0, -1);
  const after = JSON.stringify({ blocks, unanswered: unanswered.map(showUnanswered), next }).slice(1);
  return respond(c, 200, `${before},"changes":[${shown}],${after}`, JSON_HEADERS);
};

const requireAnswers = (unanswered: readonly Unanswered[], { isPartial = false, hasOthers = false } = {}): void => {
  if (unanswered.length > 0 && !isPartial) throw explainUnanswered(unanswered, hasOthers);
};

/** Takes the changes of a page, and tells how far it is on each network of which it has some or all. */
const takeChanges = (read: readonly NetworkChanges[], limit: number) => {
  const sent: NetworkChanges[] = [];
  const changes: NetworkChanges["changes"] = [];
  for (const network of read) {
    const left = limit - changes.length;
    if (network.changes.length <= left) {
      sent.push(network);
      changes.push(...network.changes);
      continue;
    }
    if (left === 0) continue;
    const taken = network.changes.slice(0, left);
    changes.push(...taken);
    sent.push({ ...network, position: taken.at(-1)?.position ?? null, reached: null });
  }
  return { sent, changes };
};

const STREAM_HEADERS = {
  "Content-Type": "text/event-stream",
  // Nothing on the way may keep, compress or collect events.
  "Cache-Control": "no-store, no-transform",
  "X-Accel-Buffering": "no",
  Vary: "Accept",
};

const answerStream = (
  c: ApiContext,
  { shards, feed, log }: Parts,
  places: StreamPlaces,
  { chainId, chains }: Values,
  { filters, finality, name, since, findStart, ...cursor }: Started,
): Response => {
  requireSome(shards, { chainId, chains, filters, finality });
  if (c.req.method === "HEAD") return respond(c, 200, null, STREAM_HEADERS);
  // `feed.stop()` has already ended the streams; a new one would hold the server open.
  if (feed.isStopped) throw overloaded("This process is stopping. Connect again.");
  const leave = places.take(c.get("caller"));
  const { incoming, outgoing } = c.env;
  const positions = new Map<number, Position | "now">();
  for (const id of new Set([...cursor.positions.keys(), ...chains])) {
    const position = findStart(id);
    if (position) positions.set(id, position);
  }
  const stream = new ChangeStream({
    feed,
    question: {
      filters,
      finality,
      name,
      since,
      findChains:
        chainId.length > 0 ? () => chains : () => findNetworks(shards, { chainId, registry: filters.registry }),
      positions,
      unknown: cursor.unknown,
    },
    onEnd: leave,
    abort: () => outgoing.destroy(),
    onError: (error) => log.error({ err: error }, "Cannot read changes for a stream"),
  });
  // Nothing cancels the stream of a pipelined request that waits for the answer before it.
  incoming.socket.once("close", () => stream.close());
  stream.start();
  c.get("endTurn")();
  return respond(c, 200, stream.body, STREAM_HEADERS);
};

/** A stream goes on without networks that cannot be answered for, but not without any. */
const requireSome = (
  shards: Shards,
  { chainId, chains, filters, finality }: Pick<Values, "chainId" | "chains" | "finality"> & { filters: Filters },
): void => {
  const unanswered = findUnknownNetworks(shards, { chainId, cursor: undefined });
  const states = new Map(shards.chainStates().map((state) => [state.chainId, state]));
  for (const id of chains) {
    const freshness = states.get(id)?.freshness ?? null;
    const problem = orProblem(() => {
      findSchema(shards, id, versionsOf(filters.registry));
      shards.requireFresh(id, freshness, finality === "final" ? { block: freshness?.finalizedBlock } : {});
    });
    if (!(problem instanceof Problem)) return;
    unanswered.push({ chainId: id, problem });
  }
  requireAnswers(unanswered);
};
