import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@redis/client";
import { describe, expect, onTestFinished } from "vitest";
import type { Limit } from "../../api/limits/sliding-window.ts";
import { findFreePort } from "../../process/ports.ts";
import { captureOutput, findProgram } from "./run.ts";
import { waitUntil } from "./setup.ts";

/** Path of an installed Redis or Valkey; null if there is none. */
const redisServer = findProgram("redis-server", "valkey-server");

/** Describes tests that need Redis. Without it they are skipped, and the title says why. */
export const describeWithRedis = (title: string, tests: () => void) =>
  describe.skipIf(redisServer === null)(
    redisServer === null ? `${title} [LEFT OUT: needs redis-server, as by apt-get install redis-server]` : title,
    tests,
  );

type RedisOptions = { password?: string };

/** Starts a real Redis until the test is over. */
export const startRedis = async (options: RedisOptions = {}) => {
  const redis = await launchRedis(options);
  onTestFinished(() => redis.stop());
  return redis;
};

/** Launches a real Redis without persistence. The caller stops it. */
export const launchRedis = async ({ password }: RedisOptions = {}) => {
  const port = await findFreePort();
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-redis-"));
  const url = `redis://${password ? `:${password}@` : ""}127.0.0.1:${port}`;
  let server: ChildProcess;
  let exited: Promise<unknown>;
  const endNow = () => server.kill("SIGKILL");

  const start = async () => {
    const { output, printed } = captureOutput();
    const settings = { port, bind: "127.0.0.1", dir: directory, save: "", appendonly: "no" };
    const args = Object.entries({ ...settings, ...(password && { requirepass: password }) }).flatMap(
      ([name, value]) => [`--${name}`, String(value)],
    );
    const child = spawn(redisServer ?? "redis-server", args, { stdio: ["ignore", "pipe", "pipe"] });
    server = child;
    exited = once(child, "exit");
    process.once("exit", endNow);
    child.stdout.pipe(output);
    child.stderr.pipe(output);
    await waitUntil(
      "Redis listens",
      async () => {
        if (child.exitCode !== null) throw new Error(`Redis ended:\n${printed()}`);
        return printed().includes("Ready to accept connections");
      },
      20,
    );
  };
  /** Crashes the server. */
  const kill = async () => {
    endNow();
    await exited;
    process.off("exit", endNow);
  };

  await start();
  return {
    url,
    port,
    kill,
    /** Restarts the server on the same port. */
    restart: start,
    /** Suspends the server: connections stay open, but get no answer. */
    hang: () => server.kill("SIGSTOP"),
    wake: () => server.kill("SIGCONT"),
    stop: async () => {
      await kill();
      await rm(directory, { recursive: true, force: true });
    },
    /** Sends a command over a new connection. */
    ask: async (...command: string[]): Promise<unknown> => {
      const client = await connect(url);
      try {
        return await client.sendCommand(command);
      } finally {
        client.destroy();
      }
    },
  };
};

export type Redis = Awaited<ReturnType<typeof launchRedis>>;

const connect = async (url: string) => {
  const client = createClient({ url, RESP: 2, socket: { reconnectStrategy: false } });
  client.on("error", () => {});
  await client.connect();
  return client;
};

export const KEY_PREFIX = "delegation-registry:rate-limit:";

/** A command from MONITOR. `at` is in microseconds of the server's clock. */
type Command = { at: number; isByScript: boolean; words: string[] };

/** A decision of Redis, made between `from` and `to`. `stamp`: the time of an admission; null for a refusal. */
type StoreDecision = { client: string; from: number; to: number; stamp: number | null };

/** Records all commands that a Redis receives until the test is over. */
export const watchRedis = async (redis: Redis) => {
  const commands: Command[] = [];
  const client = await connect(redis.url);
  onTestFinished(() => client.destroy());
  await client.monitor((line) => commands.push(parseCommand(String(line))));

  let marks = 0;
  /** Returns all commands so far. */
  const readCommands = async (): Promise<readonly Command[]> => {
    const mark = `mark ${++marks} of ${process.pid}`;
    await redis.ask("ECHO", mark);
    await waitUntil("all commands are recorded", () => commands.some(({ words }) => words[1] === mark), 10);
    return commands;
  };
  return {
    readCommands,
    /** Returns all decisions so far, in order. */
    readDecisions: async (): Promise<StoreDecision[]> => decisionsOf(await readCommands()),
  };
};

const LINE = /^(\d+)\.(\d{6}) \[\d+ (\S+)\] (.*)$/s;
const WORD = /"((?:[^"\\]|\\.)*)"/gs;

const parseCommand = (line: string): Command => {
  const [, seconds, microseconds, source = "", words = ""] = LINE.exec(line) ?? [];
  return {
    at: Number(seconds) * 1_000_000 + Number(microseconds),
    // MONITOR shows "lua" for scripts, and address and port for clients.
    isByScript: !source.includes(":"),
    words: [...words.matchAll(WORD)].map(([, word = ""]) => word),
  };
};

const decisionsOf = (commands: readonly Command[]): StoreDecision[] => {
  const decisions: StoreDecision[] = [];
  let script: Command | null = null;
  for (const command of commands) {
    const [name = "", , value] = command.words;
    if (!command.isByScript) {
      script = /^eval(sha)?$/i.test(name) ? command : null;
      continue;
    }
    if (!script) continue;
    const client = script.words[3]?.slice(KEY_PREFIX.length) ?? "";
    // A script that Redis does not know runs no commands, and is sent again.
    let decision = decisions.at(-1);
    if (decision?.from !== script.at) {
      decision = { client, from: script.at, to: script.at, stamp: null };
      decisions.push(decision);
    }
    decision.to = command.at;
    if (/^rpush$/i.test(name)) decision.stamp = Number(value);
  }
  return decisions;
};

/** Expects that, by the server's clock, no window exceeds the limit and no request is refused below it. */
export const expectExactLimit = (decisions: readonly StoreDecision[], { requests, windowMs }: Limit) => {
  const window = windowMs * 1000;
  for (const client of new Set(decisions.map(({ client }) => client))) {
    const own = decisions.filter((decision) => decision.client === client);
    const admitted = own.filter((decision) => decision.stamp !== null);
    // Some servers read their clock once per command.
    const wrong = admitted.filter(({ stamp, from, to }) => Number(stamp) < from - 1000 || Number(stamp) > to);
    expect(wrong, `${client}: stamps of another time`).toEqual([]);

    const stamps = admitted.map(({ stamp }) => Number(stamp));
    const tooMany = stamps.filter((stamp, place) => (stamps[place + requests] ?? Infinity) - stamp < window);
    expect(tooMany, `${client}: windows with more than ${requests} admissions`).toEqual([]);

    const undue = own.filter(({ stamp, from, to }) => {
      const counting = stamps.filter((other) => other > from - 1000 - window && other <= to);
      return stamp === null && counting.length < requests;
    });
    expect(undue, `${client}: refused with less than ${requests} admissions`).toEqual([]);
  }
};
