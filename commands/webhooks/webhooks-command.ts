import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { pino } from "pino";
import { Database } from "../../api/database/database.ts";
import { migrate } from "../../api/database/migrate.ts";
import { readOperatorsWebhook } from "../../api/webhooks/read-new-webhook.ts";
import {
  askForTest,
  createWebhook,
  type DeliveryInfo,
  deleteWebhook,
  findWebhook,
  listDeliveries,
  listWebhooks,
  type NewWebhook,
  pauseWebhook,
  resumeWebhook,
  rotateSecret,
  sendAgain,
  type WebhookInfo,
} from "../../api/webhooks/webhooks.ts";
import { findDatabase } from "../../local/find-database.ts";
import { describeError } from "../../process/program.ts";
import { parseOptionalDatabaseUrl } from "../../process/settings.ts";
import { formatMinute, type Output, printTable } from "../output.ts";

const USAGE = `npm run webhooks -- <command>

  create --url <url> [<filter> …]   makes a webhook and prints its secret once
  list                              lists all webhooks, those of the developer page too
  deliveries <id>                   lists the newest messages of a webhook, and what became of them
  test <id>                         sends a test, and waits for what becomes of it
  again <id> <message>              sends a message again
  pause <id>, resume <id>           sends nothing; goes on where it stopped
  rotate <id>                       prints a new secret; the old one signs too for a day
  delete <id>

Filters: --chain <id> (several times; all without it), --registry v1|v2, --wallet, --vault, --delegate or --contract <address>,
--type ALL|CONTRACT|TOKEN, --finality latest (default: final). --cursor start sends the whole log, --cursor <cursor> what
follows a cursor of GET /changes with the same filters; without it, changes from now on.
An API process with WEBHOOKS=on sends the messages. The database is DATABASE_URL, or that of a running "npm start" or "npm run dev".`;

/** Webhooks of the operator have no limit. */
const OPERATOR = null;
const NO_LIMIT = 1;
/** Time for a test: the longest attempt, and until a process looks for it. */
const TEST_MS = 15_000;
const LOOK_MS = 250;

type Run = (database: Database, output: Output, signal: AbortSignal) => Promise<void>;

const create =
  (asked: NewWebhook): Run =>
  async (database, { print, say }) => {
    const created = await createWebhook(database, { ...asked, owner: OPERATOR }, NO_LIMIT);
    if (typeof created === "string") throw new Error("The webhook could not be made. Try again.");
    say(`The webhook ${created.id}. Its secret is shown only once:\n`);
    print(created.secret);
    say(`\n"npm run webhooks -- test ${created.id}" sends a test.`);
  };

const list: Run = async (database, { print, say }) => {
  const webhooks = await listWebhooks(database, OPERATOR);
  if (webhooks.length === 0) {
    say('There are no webhooks. "npm run webhooks -- create --url <url>" makes one.');
    return;
  }
  printTable(
    print,
    ["ID", "OWNER", "URL", "FILTERS", "CREATED", "LAST DELIVERY", "STATE"],
    webhooks.map((webhook) => [
      webhook.id,
      webhook.owner ?? "operator",
      webhook.url,
      showFilters(webhook),
      formatMinute(webhook.createdAt),
      webhook.lastDeliveredAt ? formatMinute(webhook.lastDeliveredAt) : "never",
      showState(webhook),
    ]),
  );
};

const showFilters = ({ chainIds, filters, finality }: WebhookInfo): string =>
  Object.entries({ ...(chainIds.length > 0 && { chain: chainIds.join() }), ...filters, finality })
    .flatMap(([name, value]) => (value && value !== "both" ? `${name}=${value}` : []))
    .join(" ");

const showState = ({ isBlocked, pausedAt, pausedReason, failingSince, nextAttemptAt }: WebhookInfo): string => {
  if (isBlocked) return "owner blocked";
  if (pausedAt) return `paused ${formatMinute(pausedAt)}${pausedReason ? `: ${pausedReason}` : ""}`;
  if (!failingSince) return "active";
  return `failing since ${formatMinute(failingSince)}${nextAttemptAt ? `, next attempt ${formatMinute(nextAttemptAt)}` : ""}`;
};

const deliveries =
  (id: string): Run =>
  async (database, { print, say }) => {
    const found = await listDeliveries(database, id);
    if (found.length === 0) {
      say("No message has been sent yet.");
      return;
    }
    printTable(
      print,
      ["MESSAGE", "TYPE", "SENT", "ATTEMPTS", "OUTCOME", "BODY"],
      found.map((delivery) => {
        const { messageId, type, sentAt, attempts, body } = delivery;
        return [messageId, type, sentAt ? formatMinute(sentAt) : "not yet", `${attempts}`, showOutcome(delivery), body];
      }),
    );
  };

const showOutcome = ({ status, error, askedAt, sentAt }: DeliveryInfo): string =>
  error ?? (status !== null ? `delivered, ${status}` : askedAt || !sentAt ? "waiting" : "");

const test =
  (id: string): Run =>
  async (database, { print, say }, signal) => {
    const messageId = await askForTest(database, id);
    say(`Asked for the test ${messageId}.`);
    for (let waited = 0; waited < TEST_MS && !signal.aborted; waited += LOOK_MS) {
      const sent = (await listDeliveries(database, id)).find((delivery) => delivery.messageId === messageId);
      if (sent?.sentAt) {
        print(showOutcome(sent));
        if (sent.error) throw new Error("The receiver did not take it.");
        return;
      }
      await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
    }
    throw new Error("It has not been sent: does an API process with WEBHOOKS=on run?");
  };

const again =
  (id: string, messageId: string): Run =>
  async (database, { say }) => {
    const asked = await sendAgain(database, id, messageId);
    if (asked === "not kept") {
      throw new Error('There is no such message. "npm run webhooks -- deliveries <id>" lists those that are kept.');
    }
    if (asked === "paused") throw new Error(`It comes next: "npm run webhooks -- resume ${id}" goes on with it.`);
    say("It will be sent again within seconds.");
  };

const rotate =
  (id: string): Run =>
  async (database, { print, say }) => {
    const secret = await rotateSecret(database, id, OPERATOR);
    say("The new secret. It is shown only once; the old one signs too for a day:\n");
    print(secret);
  };

/** Creates a command that says that something has happened. */
const change =
  (act: (database: Database, id: string, owner: null) => Promise<unknown>, done: string) =>
  (id: string): Run =>
  async (database, { say }) => {
    await act(database, id, OPERATOR);
    say(`${id} ${done}`);
  };

/** Commands for one webhook. */
const COMMANDS: Record<string, (id: string) => Run> = {
  deliveries,
  test,
  rotate,
  pause: change(pauseWebhook, "is paused."),
  resume: change(resumeWebhook, "goes on where it stopped."),
  delete: change(deleteWebhook, "is deleted."),
};

const FILTERS = ["url", "registry", "wallet", "vault", "delegate", "contract", "type", "finality", "cursor"];

const parseCreate = (args: string[]): Run => {
  const texts = Object.fromEntries(FILTERS.map((name) => [name, { type: "string" as const, multiple: true }]));
  const { values } = parseArgs({ args, options: { ...texts, chain: { type: "string", multiple: true } } });
  const { chain, ...rest } = values;
  const given: Record<string, unknown> = { ...rest, chainId: chain };
  return create(readOperatorsWebhook((name) => (given[name] as string[] | undefined) ?? []));
};

/** Parses the arguments; null if they are invalid. */
const parseCommand = ([command = "", ...args]: string[]): Run | null => {
  if (command === "create") return parseCreate(args);
  const { positionals } = parseArgs({ args, allowPositionals: true });
  const [id, messageId, ...others] = positionals;
  if (command === "list") return id === undefined ? list : null;
  if (!id || others.length > 0) return null;
  if (command === "again") return messageId ? forWebhook(id, again(id, messageId)) : null;
  const run = Object.hasOwn(COMMANDS, command) ? COMMANDS[command] : undefined;
  return run && messageId === undefined ? forWebhook(id, run(id)) : null;
};

const forWebhook =
  (id: string, run: Run): Run =>
  async (database, output, signal) => {
    if (!(await findWebhook(database, id, OPERATOR))) {
      throw new Error('There is no such webhook. "npm run webhooks -- list" lists all of them.');
    }
    await run(database, output, signal);
  };

const requireCommand = (args: string[]): Run => {
  try {
    const command = parseCommand(args);
    if (command) return command;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  throw new Error(USAGE);
};

/**
 * Creates, lists and deletes webhooks, and shows their deliveries: `npm run webhooks`.
 * @returns the exit code
 */
export const webhooksCommand = async (
  args: string[],
  { environment, signal, ...output }: Output & { environment: NodeJS.ProcessEnv; signal: AbortSignal },
): Promise<number> => {
  try {
    const run = requireCommand(args);
    const url = await findDatabase(parseOptionalDatabaseUrl(environment));
    const { host, pathname } = new URL(url);
    output.say(`Database ${host}${pathname}`);
    await migrate(url);
    const database = new Database(url, pino({ enabled: false }));
    await run(database, output, signal).finally(() => database.close());
    return 0;
  } catch (error) {
    output.say(describeError(error));
    return 1;
  }
};
