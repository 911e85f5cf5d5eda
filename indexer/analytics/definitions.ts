import pg from "pg";
import { CHAINS_OF, FUNCTIONS, type SqlFunction } from "./functions.ts";
import { type ShardTable, selectFromShards, TABLES_IN_LOCK_ORDER } from "./shard-tables.ts";
import { CHAINS, selectColumns, VIEWS, type View } from "./views.ts";

/**
 * Raise it with every change of a definition. Of two versions that run side by side, the newer one's definitions stay.
 * Add new columns at the end of a view: then the view keeps its grants, and the views that others have built on it.
 */
export const ANALYTICS_VERSION = 7;

/** The statements that create and drop a view or a function. */
export type Definition = { name: string; kind: "view" | "function"; create: string; drop: string; comments: string[] };

const commentOn = (object: string, text: string) => `comment on ${object} is ${pg.escapeLiteral(text)}`;

const defineView = ({ name, comment: text, columns, from, distinctOn }: View): Definition => ({
  name,
  kind: "view",
  create: `create or replace view ${name} as
select ${distinctOn ? `distinct on (${distinctOn})\n  ` : ""}${selectColumns(columns)}
from ${from}`,
  drop: `drop view if exists ${name} cascade`,
  comments: [
    commentOn(`view ${name}`, text),
    ...Object.entries(columns).map(([column, [, text]]) => commentOn(`column ${name}.${column}`, text)),
  ],
});

const defineShardTable = (table: ShardTable, shards: readonly string[]): Definition => ({
  name: `indexer.${table}`,
  kind: "view",
  create: `create or replace view indexer.${table} as\n${selectFromShards(table, shards)}`,
  drop: `drop view if exists indexer.${table} cascade`,
  comments: [
    commentOn(`view indexer.${table}`, `The rows of ${table} of all shards. The schema analytics selects from it.`),
  ],
});

const defineFunction = ({ name, args, returns, options, body, comment: text }: SqlFunction): Definition => {
  const signature = `${name}(${args.map((arg) => arg.replace(/ default .*/, "")).join(", ")})`;
  return {
    name,
    kind: "function",
    create: `create or replace function ${name}(${args.join(", ")})
returns ${returns} language plpgsql ${options} as $body$${body}
$body$`,
    drop: `drop function if exists ${signature} cascade`,
    comments: [commentOn(`function ${signature}`, text)],
  };
};

/** Lists the definitions of views and functions over these shards, each after those that it depends on. */
export const defineAnalytics = (shards: readonly string[]): Definition[] => [
  defineShardTable("indexed_block", shards),
  defineView(CHAINS),
  defineFunction(CHAINS_OF),
  ...TABLES_IN_LOCK_ORDER.filter((table) => table !== "indexed_block").map((table) => defineShardTable(table, shards)),
  ...VIEWS.map(defineView),
  ...FUNCTIONS.map(defineFunction),
];
