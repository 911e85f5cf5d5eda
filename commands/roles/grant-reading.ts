import pg from "pg";

const quote = pg.escapeIdentifier;

/** Grants read access to all current and future objects of a schema. */
export const grantReading = async (client: pg.Client, schema: string, owner: string, reader: string): Promise<void> => {
  const [of, to] = [quote(schema), quote(reader)];
  const byDefault = `alter default privileges for role ${quote(owner)} in schema ${of}`;
  await client.query(`grant usage on schema ${of} to ${to}`);
  await client.query(`grant select on all tables in schema ${of} to ${to}`);
  await client.query(`${byDefault} grant select on tables to ${to}`);
  await client.query(`grant execute on all routines in schema ${of} to ${to}`);
  await client.query(`${byDefault} grant execute on routines to ${to}`);
};
