import { drizzle } from "drizzle-orm/node-postgres";
import { getTableConfig } from "drizzle-orm/pg-core";
import { expect } from "vitest";
import { migrate } from "../../api/database/migrate.ts";
import {
  apiKey,
  apiKeyUsage,
  chain,
  index,
  indexTables,
  session,
  shard,
  signIn,
  usageWriter,
} from "../../api/database/tables.ts";
import { test } from "../support/test.ts";

test("the API's table definitions match the columns and types of the database", async ({
  databaseUrl,
  database: client,
}) => {
  await migrate(databaseUrl);
  const db = drizzle(client, { casing: "snake_case" });
  const { delegationV1, delegationV2, delegationChange, indexedBlock } = indexTables("registry");
  const ofIndex = [delegationV1, delegationV2, delegationChange, indexedBlock, shard, index, chain];
  for (const table of [...ofIndex, apiKey, apiKeyUsage, usageWriter, signIn, session]) {
    const { name, columns } = getTableConfig(table);
    await db.select().from(table).limit(1);
    const { fields } = await client.query(db.select().from(table).limit(0).toSQL().sql.replace("$1", "0"));
    const types = await client.query(
      "select format_type(oid, typmod) as type from unnest($1::oid[], $2::int[]) as t (oid, typmod)",
      [fields.map(({ dataTypeID }) => dataTypeID), fields.map(({ dataTypeModifier }) => dataTypeModifier)],
    );
    const expected = columns.map((column) => column.getSQLType().replace(", ", ","));
    expect({ name, types: types.rows.map(({ type }) => type) }).toEqual({ name, types: expected });
  }
});
