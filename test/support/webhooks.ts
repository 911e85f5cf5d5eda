import type { IncomingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";
import type pg from "pg";
import { Webhook } from "standardwebhooks";
import type { Address } from "viem";
import { expect } from "vitest";
import { webhooksCommand } from "../../commands/webhooks/webhooks-command.ts";
import type { LiveChange } from "./changes.ts";
import { startHttp } from "./http.ts";
import { readServedSchema } from "./index-copy.ts";

/** Settings of an API whose webhooks reach this machine. */
export const WEBHOOKS_ON = { WEBHOOKS: "on", WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" };

type WebhookMessage =
  | { type: "delegation.changed"; timestamp: string; data: LiveChange }
  | { type: "delegation.undone"; timestamp: string; data: { chainId: number; afterBlock: number } }
  | { type: "webhook.test"; timestamp: string; data: { webhook: string } };

type Received = { headers: IncomingHttpHeaders; body: string; message: WebhookMessage };

/** Starts a receiver until the test is over. It answers with a status, once that is there. */
export const startReceiver = async (answer: (received: Received) => number | Promise<number> = () => 204) => {
  const received: Received[] = [];
  const { url } = await startHttp(async (request, response) => {
    const body = await text(request);
    const each = { headers: request.headers, body, message: JSON.parse(body) as WebhookMessage };
    received.push(each);
    response.writeHead(await answer(each)).end("thanks");
  });
  return { url: `${url}/hook`, received };
};

/** Verifies a message with the library of Standard Webhooks. */
export const verify = (secret: string, { headers, body }: Received) =>
  new Webhook(secret).verify(body, headers as Record<string, string>);

/** Runs `npm run webhooks` in this process. */
export const runWebhooks = async (databaseUrl: string, ...args: string[]) => {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const code = await webhooksCommand(args, {
    environment: { DATABASE_URL: databaseUrl },
    signal: new AbortController().signal,
    print: (text) => stdout.push(text),
    say: (text) => stderr.push(text),
  });
  return { code, stdout: stdout.join("\n"), stderr: stderr.join("\n") };
};

/** Makes a webhook of the operator. */
export const createWebhook = async (databaseUrl: string, url: string, ...args: string[]) => {
  const { code, stdout, stderr } = await runWebhooks(databaseUrl, "create", "--url", url, ...args);
  expect(code, stderr).toBe(0);
  return { id: /wh_[0-9a-f]{16}/.exec(stderr)?.[0] ?? expect.fail(stderr), secret: stdout };
};

/** Adds blocks to the index of a chain, each with one change by a vault. @returns their numbers */
export const addBlocks = async (database: pg.Client, vaults: readonly string[], chainId = 1): Promise<number[]> => {
  const schema = await readServedSchema(database);
  await database.query("set session_replication_role = replica");
  const blocks: number[] = [];
  for (const vault of vaults) {
    const { rows } = await database.query(
      `with block as (
         update ${schema}.indexed_block set number = number + 1, timestamp = extract(epoch from now())::bigint
         where chain_id = $2 returning chain_id, number, timestamp
       ), made as (
         insert into ${schema}.delegation_change select made.* from block,
           (select change from ${schema}.delegation_change change where chain_id = 1 and type = 'ALL' limit 1) one,
           jsonb_populate_record(change, jsonb_build_object('chain_id', block.chain_id, 'block_number', number,
             'block_timestamp', timestamp, 'log_index', 0, 'ordinal', 0, 'vault', lower($1::text), 'active', true,
             'was_active', false, 'made_block', number, 'made_log_index', 0,
             'transaction_hash', '0x' || md5(random()::text) || md5('b'))) made
       )
       select number::int from block`,
      [vault, chainId],
    );
    blocks.push(rows[0].number);
  }
  return blocks;
};

/** Removes the newest blocks, as a reorg does. */
export const removeBlocks = async (database: pg.Client, after: number, chainId = 1): Promise<void> => {
  const schema = await readServedSchema(database);
  await database.query("begin");
  await database.query(`delete from ${schema}.delegation_change where chain_id = $1 and block_number > $2`, [
    chainId,
    after,
  ]);
  await database.query(`update ${schema}.indexed_block set number = $2 where chain_id = $1`, [chainId, after]);
  await database.query("commit");
};

/** A vault of a test's own. */
export const vaultNumber = (number: number): Address => `0x${String(number).padStart(40, "0")}`;

export const readWebhook = async (database: pg.Client, id: string) =>
  (await database.query("select * from service.webhook where id = $1", [id])).rows[0];
