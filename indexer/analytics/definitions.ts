import pg from "pg";
import { CHAINS_OF, FUNCTIONS, type SqlFunction } from "./functions.ts";
import { STORED_TABLES, type StoredTable, storedRows } from "./stored.ts";
import { CHAINS, selectColumns, VIEWS, type View } from "./views.ts";

/**
 * Goes up with every change of what is defined here. Of two versions that run side by side, the newer
 * one's definitions stay. Give views new columns at their end: then they keep their grants, and
 * whatever others have built on them.
 */
export const ANALYTICS_VERSION = 2;

/** A view or a function, and how it is made and taken away. */
export type Definition = { name: string; kind: "view" | "function"; create: string; drop: string; comments: string[] };

const comment = (what: string, text: string) => `comment on ${what} is ${pg.escapeLiteral(text)}`;

const defineView = ({ name, comment: text, columns, from, distinctOn }: View): Definition => ({
  name,
  kind: "view",
  create: `create or replace view ${name} as
select ${distinctOn ? `distinct on (${distinctOn})\n  ` : ""}${selectColumns(columns)}
from ${from}`,
  drop: `drop view if exists ${name} cascade`,
  comments: [
    comment(`view ${name}`, text),
    ...Object.entries(columns).map(([column, [, text]]) => comment(`column ${name}.${column}`, text)),
  ],
});

const defineStored = (table: StoredTable, shards: readonly string[]): Definition => ({
  name: `indexer.${table}`,
  kind: "view",
  create: `create or replace view indexer.${table} as\n${storedRows(table, shards)}`,
  drop: `drop view if exists indexer.${table} cascade`,
  comments: [
    comment(`view indexer.${table}`, `The rows of ${table} of all shards: what the schema analytics is made of.`),
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
    comments: [comment(`function ${signature}`, text)],
  };
};

/** All that data teams are given, over these shards, each after what it is made of. */
export const defineAnalytics = (shards: readonly string[]): Definition[] => [
  defineStored("indexed_block", shards),
  defineView(CHAINS),
  defineFunction(CHAINS_OF),
  ...STORED_TABLES.filter((table) => table !== "indexed_block").map((table) => defineStored(table, shards)),
  ...VIEWS.map(defineView),
  ...FUNCTIONS.map(defineFunction),
];
