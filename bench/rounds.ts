import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Load, LoadResult } from "./load.ts";
import { LoadProcess } from "./load-process.ts";
import { cpuSeconds, residentMemory, serverCpuSeconds } from "./process-cost.ts";

/** One or several processes under load, and the requests to send to them. */
export type Subject = {
  name: string;
  ports: readonly number[];
  /** Processes that answer. */
  pids: readonly number[];
  requests: readonly string[];
  /** Expected status of the answers; 200 by default. */
  status?: 200 | 429;
};

/** Measured figures. Microseconds are processor time per request. */
export type Figures = {
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  apiMicroseconds: number;
  postgresMicroseconds: number;
  loadMicroseconds: number;
  memoryMegabytes: number;
  /** Share of all processors in use. */
  busy: number;
  /** Share of all processors that other programs used. */
  others: number;
};

type Plan = { connections: number; ms: number; rounds: number };

/** Measures subjects in turns: a temporary slowdown of the machine affects all of them. */
export class Rounds {
  readonly #load = new LoadProcess();
  readonly #client: pg.Client;
  /** Process of the connection's backend; its parent is the Postgres server. */
  readonly #backend: number;

  private constructor(client: pg.Client, backend: number) {
    this.#client = client;
    this.#backend = backend;
  }

  /** @param databaseUrl - a database of the Postgres server to measure */
  static async open(databaseUrl: string): Promise<Rounds> {
    const client = new pg.Client(databaseUrl);
    await client.connect();
    const { rows } = await client.query("select pg_backend_pid() as pid");
    return new Rounds(client, rows[0].pid);
  }

  async close(): Promise<void> {
    this.#load.stop();
    await this.#client.end();
  }

  /** Warms up a process with all its requests, so that V8 compiles what it will run. Each process gets the same time. */
  async warmUp(subjectsOfProcess: readonly Subject[], ms: number): Promise<void> {
    for (const { ports, requests } of subjectsOfProcess) {
      await this.#run({ ports, requests, connections: 64, ms: ms / subjectsOfProcess.length });
    }
  }

  /** Sends requests of a subject for some time, without measuring. */
  async send({ ports, requests }: Subject, connections: number, ms = 1_000): Promise<void> {
    await this.#run({ ports, requests, connections, ms });
  }

  /** Returns the median of each figure over all rounds. */
  async measure(
    subjects: readonly Subject[],
    { connections, ms, rounds }: Plan,
  ): Promise<ReadonlyMap<Subject, Figures>> {
    const measured = new Map(subjects.map((subject) => [subject, [] as Figures[]]));
    for (let round = 0; round < rounds; round++) {
      // Each round starts with another subject: one that follows a heavy subject is slower.
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
      load: cpuSeconds(this.#load.pid),
      own: process.cpuUsage().user / 1e6,
      machine: machineSeconds(),
    });
    const before = cost();
    const result = await this.#run({ ports, requests, connections, ms });
    const after = cost();

    // A subject that refuses requests answers the first few.
    if (status === 200 && Object.keys(result.statuses).some((other) => other !== "200")) {
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
      memoryMegabytes: sum(pids.map(residentMemory)) / 2 ** 20,
      busy: busy / all,
      others: Math.max(0, busy - spent("api") - spent("postgres") - spent("load") - spent("own")) / all,
    };
  }

  async #run(load: Load): Promise<LoadResult> {
    // Let the previous load finish its remaining work.
    await sleep(50);
    return this.#load.run(load);
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

/** Reads the total and busy time of all processors since boot. */
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
