import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Load, LoadResult } from "./load.ts";
import { cpuSeconds, memory, serverCpuSeconds } from "./process-cost.ts";

/** Something that answers requests. */
export type Subject = {
  name: string;
  ports: readonly number[];
  /** The processes that answer. */
  pids: readonly number[];
  requests: readonly string[];
  /** What the answers have to be, or the figures are of something else. */
  status?: 200 | 429;
};

/** What answering took. Microseconds are of processor time, for each request. */
export type Figures = {
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  apiMicroseconds: number;
  postgresMicroseconds: number;
  loadMicroseconds: number;
  memoryMegabytes: number;
  /** Of all processors, how much was in use; and how much of it by whoever else is on this machine. */
  busy: number;
  others: number;
};

type Plan = { connections: number; ms: number; rounds: number };

/** Measures subjects in turns: what slows the machine down for a while slows down all of them. */
export class Rounds {
  readonly #load: ChildProcess;
  /** A connection to the server, and the process behind it, which tells the server's own. */
  readonly #client: pg.Client;
  readonly #backend: number;

  private constructor(client: pg.Client, backend: number) {
    this.#client = client;
    this.#backend = backend;
    this.#load = fork(join(import.meta.dirname, "load.ts"), { execArgv: ["--import", "tsx"] });
  }

  /** @param databaseUrl - of the Postgres server whose work is counted */
  static async open(databaseUrl: string): Promise<Rounds> {
    const client = new pg.Client(databaseUrl);
    await client.connect();
    const { rows } = await client.query("select pg_backend_pid() as pid");
    return new Rounds(client, rows[0].pid);
  }

  async close(): Promise<void> {
    this.#load.kill();
    await this.#client.end();
  }

  /** Lets the compiler of a process see all that it will have to compile: each process for as long as every other. */
  async warmUp(subjectsOfProcess: readonly Subject[], ms: number): Promise<void> {
    for (const { ports, requests } of subjectsOfProcess) {
      await this.#run({ ports, requests, connections: 64, ms: ms / subjectsOfProcess.length });
    }
  }

  /** The median of each figure over all rounds. */
  async measure(
    subjects: readonly Subject[],
    { connections, ms, rounds }: Plan,
  ): Promise<ReadonlyMap<Subject, Figures>> {
    const measured = new Map(subjects.map((subject) => [subject, [] as Figures[]]));
    for (let round = 0; round < rounds; round++) {
      // Each round begins with another one: who comes after something heavy is slower.
      const first = Math.floor((round * subjects.length) / rounds);
      for (const subject of [...subjects.slice(first), ...subjects.slice(0, first)]) {
        measured.get(subject)?.push(await this.#measureOnce(subject, connections, ms));
      }
    }
    return new Map([...measured].map(([subject, figures]) => [subject, medians(figures)]));
  }

  async #measureOnce(subject: Subject, connections: number, ms: number): Promise<Figures> {
    const { ports, pids, requests, status = 200 } = subject;
    const cost = () => ({
      api: sum(pids.map(cpuSeconds)),
      postgres: serverCpuSeconds(this.#backend),
      load: cpuSeconds(this.#load.pid ?? 0),
      own: process.cpuUsage().user / 1e6,
      machine: machineSeconds(),
    });
    const before = cost();
    const result = await this.#run({ ports, requests, connections, ms });
    const after = cost();

    const wrong = Object.keys(result.statuses).filter((other) => other !== String(status));
    // Of a subject that refuses, the first few are answered.
    if (status === 200 && wrong.length > 0) {
      throw new Error(`${subject.name}: answers were ${JSON.stringify(result.statuses)}.`);
    }
    const perRequest = (seconds: number) => (seconds * 1e6) / result.requests;
    const spent = (part: "api" | "postgres" | "load" | "own") => after[part] - before[part];
    const all = after.machine.total - before.machine.total;
    const busy = after.machine.busy - before.machine.busy;
    return {
      requestsPerSecond: result.requestsPerSecond,
      p50Ms: result.p50Ms,
      p99Ms: result.p99Ms,
      apiMicroseconds: perRequest(spent("api")),
      postgresMicroseconds: perRequest(spent("postgres")),
      loadMicroseconds: perRequest(spent("load")),
      memoryMegabytes: sum(pids.map(memory)) / 2 ** 20,
      busy: busy / all,
      others: Math.max(0, busy - spent("api") - spent("postgres") - spent("load") - spent("own")) / all,
    };
  }

  async #run(load: Load): Promise<LoadResult> {
    // What the one before has left to do is not to be counted for this one.
    await sleep(50);
    return new Promise((resolve, reject) => {
      this.#load.once("message", (result: LoadResult | { error: string }) =>
        "error" in result ? reject(new Error(result.error)) : resolve(result),
      );
      this.#load.send(load);
    });
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

export const median = (numbers: readonly number[]): number => {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
};

const medians = (all: readonly Figures[]): Figures => {
  const [first] = all;
  if (!first) throw new Error("Nothing was measured.");
  const names = Object.keys(first) as (keyof Figures)[];
  return Object.fromEntries(names.map((name) => [name, median(all.map((figures) => figures[name]))])) as Figures;
};

/** The time of all processors since the machine was started, and how much of it they were in use. */
const machineSeconds = () => {
  const [user = 0, nice = 0, system = 0, idle = 0, waiting = 0, ...rest] = (
    readFileSync("/proc/stat", "utf8").split("\n", 1)[0] ?? ""
  )
    .split(/\s+/)
    .slice(1)
    .map((ticks) => Number(ticks) / 100);
  const [irq = 0, softIrq = 0] = rest;
  const busy = user + nice + system + irq + softIrq;
  return { busy, total: busy + idle + waiting };
};
