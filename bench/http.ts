import { availableParallelism } from "node:os";
import { compare } from "./comparison.ts";
import type { Case } from "./report.ts";
import { type Figures, Rounds, type Subject } from "./rounds.ts";
import {
  ALL_CHECKS,
  bareOf,
  checkOf,
  createKey,
  longListOf,
  OUT_OF_REACH,
  ponderCheckOf,
  queryOf,
  type Server,
  Stage,
  shortListOf,
} from "./stage.ts";

// The service over HTTP, beside what it could be.

export type HttpPlan = {
  /** The database that most is measured on, with so many delegations. */
  databaseUrl: string;
  delegations: number;
  rounds: number;
  /** How long a round is, and how long a process is warmed up. */
  ms: number;
  warmUpMs: number;
  log: (message: string) => void;
};

const CONNECTIONS = 64;
/** A long list is many times the work of a check. */
const LIST_CONNECTIONS = 8;

export const measureHttp = async (plan: HttpPlan): Promise<Case[]> => {
  const { databaseUrl, delegations: size, rounds: count, ms, warmUpMs, log } = plan;
  const stage = new Stage();
  const rounds = await Rounds.open(databaseUrl);
  try {
    const [api, forMemory, ponder, forBare, forQuery, forDrizzle] = await Promise.all([
      stage.startApi(databaseUrl, OUT_OF_REACH),
      stage.startMemoryApi(databaseUrl, OUT_OF_REACH),
      stage.startPonder(databaseUrl),
      // Each baseline in a process of its own: beside other routes, Node makes slower code of it.
      stage.startBaselines(databaseUrl),
      stage.startBaselines(databaseUrl),
      stage.startBaselines(databaseUrl),
    ]);
    const key = await createKey(databaseUrl);

    const bare = bareOf(forBare);
    const query = queryOf(forQuery, size);
    const checks = ALL_CHECKS.map((kind) => checkOf(api, kind, size, key));
    const memoryChecks = ALL_CHECKS.map((kind) => checkOf(forMemory, kind, size, key));
    const ponderChecks = ALL_CHECKS.map((kind) => ponderCheckOf(ponder, kind, size));
    const shortList = shortListOf(api, size, key);
    const longList = longListOf(api, size, (wallet) => `/registry/v2/${wallet}?numbers=string`, { "X-API-KEY": key });
    const drizzle = longListOf(forDrizzle, size, (wallet) => `/list-drizzle/${wallet}`);

    log("Warming up");
    const processes = [[...checks, shortList, longList], memoryChecks, [bare], [query], [drizzle], ponderChecks];
    for (const subjects of processes) await rounds.warmUp(subjects, warmUpMs);

    log(`Checks and short lists, ${CONNECTIONS} connections`);
    const wide = await rounds.measure([bare, query, ...checks, ...memoryChecks, shortList, ...ponderChecks], {
      connections: CONNECTIONS,
      ms,
      rounds: count,
    });
    log("Checks, one connection");
    const narrow = await rounds.measure([query, ...checks], { connections: 1, ms: ms / 2, rounds: count });
    log(`Long lists, ${LIST_CONNECTIONS} connections`);
    const long = await rounds.measure([longList, drizzle], { connections: LIST_CONNECTIONS, ms, rounds: count });

    const [bareFigures, queryFigures, queryAlone] = [of(wide, bare), of(wide, query), of(narrow, query)];
    return [
      { name: "bare Hono route", figures: bareFigures, comparisons: [] },
      { name: "one prepared query per request", figures: queryFigures, comparisons: [] },
      ...checks.map((check, index): Case => {
        const figures = of(wide, check);
        const memoryFigures = of(wide, memoryChecks[index] ?? bare);
        const ponderFigures = of(wide, ponderChecks[index] ?? bare);
        return {
          name: `${check.name}, ${CONNECTIONS} connections`,
          figures,
          comparisons: [
            throughput(figures, memoryFigures, "the same from memory", 0.7),
            throughput(figures, queryFigures, "one query per request", 2),
            throughput(figures, ponderFigures, "Ponder API function", 6),
          ],
        };
      }),
      ...memoryChecks.map((check) => ({
        name: `${check.name} from memory`,
        figures: of(wide, check),
        comparisons: [],
      })),
      ...ponderChecks.map((check) => ({ name: check.name, figures: of(wide, check), comparisons: [] })),
      { name: "one prepared query per request, one connection", figures: queryAlone, comparisons: [] },
      ...checks.map((check): Case => {
        const figures = of(narrow, check);
        const { p50Ms: ours } = figures;
        const comparison = compare({
          baseline: "one query per request",
          unit: "ms p50",
          ours,
          theirs: queryAlone.p50Ms,
          target: { atMost: 1.6 },
        });
        return { name: `${check.name}, one connection`, figures, comparisons: [comparison] };
      }),
      {
        name: `${shortList.name}, ${CONNECTIONS} connections`,
        figures: of(wide, shortList),
        comparisons: [],
      },
      { name: "drizzle rows and JSON.stringify, list of 1,000", figures: of(long, drizzle), comparisons: [] },
      {
        name: `${longList.name}, ${LIST_CONNECTIONS} connections`,
        figures: of(long, longList),
        comparisons: [throughput(of(long, longList), of(long, drizzle), "drizzle", 3)],
      },
      ...(await measureTwoProcesses(plan, stage, rounds, api, key)),
      ...(await measureRefusals(plan, stage, rounds)),
    ];
  } finally {
    await rounds.close();
    await stage.end();
  }
};

/** Two processes beside one, with the same connections in all. */
const measureTwoProcesses = async (
  { databaseUrl, delegations, rounds: count, ms, warmUpMs, log }: HttpPlan,
  stage: Stage,
  rounds: Rounds,
  api: Server,
  key: string,
): Promise<Case[]> => {
  log("Two processes");
  const other = await stage.startApi(databaseUrl);
  const kind = { version: "v2", check: "all" } as const;
  const one = checkOf(api, kind, delegations, key);
  const two: Subject = { ...one, name: "two processes", ports: [api.port, other.port], pids: [api.pid, other.pid] };
  await rounds.warmUp([two], warmUpMs);
  const measured = await rounds.measure([one, two], { connections: CONNECTIONS, ms, rounds: count });
  const [alone, together] = [of(measured, one), of(measured, two)];
  // With Postgres and the load beside them, two processes need more than two processors.
  const canShow = availableParallelism() > 2;
  return [
    {
      name: `${one.name}, two processes`,
      figures: together,
      comparisons: canShow ? [throughput(together, alone, "one process", 1.5)] : [],
      remark: `${canShow ? "" : "not compared, there are too few processors; "}${whatLimits(together)}`,
    },
  ];
};

/** What a machine is busy with when it cannot do more. */
const whatLimits = (figures: Figures): string => {
  const { apiMicroseconds: api, postgresMicroseconds: postgres, loadMicroseconds: load, busy } = figures;
  const percent = (part: number) => `${Math.round((100 * part) / (api + postgres + load))} %`;
  return `processors ${Math.round(busy * 100)} % busy: API ${percent(api)}, Postgres ${percent(postgres)}, load ${percent(load)}`;
};

/** What it costs to refuse a request, beside answering one: of a client without a key. */
const measureRefusals = async (
  { databaseUrl, delegations, rounds: count, ms, warmUpMs, log }: HttpPlan,
  stage: Stage,
  rounds: Rounds,
): Promise<Case[]> => {
  log("Refusals");
  const kind = { version: "v2", check: "all" } as const;
  const [limited, unlimited] = await Promise.all([
    stage.startApi(databaseUrl),
    stage.startApi(databaseUrl, OUT_OF_REACH),
  ]);
  const refused: Subject = { ...checkOf(limited, kind, delegations), name: "refusal", status: 429 };
  const answered: Subject = { ...checkOf(unlimited, kind, delegations), name: "answer without a key" };
  for (const subject of [refused, answered]) await rounds.warmUp([subject], warmUpMs);
  const cases: Case[] = [];
  for (const connections of [1, CONNECTIONS]) {
    const measured = await rounds.measure([refused, answered], { connections, ms, rounds: count });
    const cost = (subject: Subject) => {
      const { apiMicroseconds, postgresMicroseconds } = of(measured, subject);
      return apiMicroseconds + postgresMicroseconds;
    };
    const shown = connections === 1 ? "one connection" : `${connections} connections`;
    cases.push(
      { name: `${answered.name}, ${shown}`, figures: of(measured, answered), comparisons: [] },
      {
        name: `${refused.name}, ${shown}`,
        figures: of(measured, refused),
        comparisons: [
          compare({
            baseline: "answer",
            unit: "µs of API and Postgres",
            ours: cost(refused),
            theirs: cost(answered),
            target: { atMost: 0.5 },
          }),
        ],
      },
    );
  }
  return cases;
};

/** The same checks with few delegations and with many. */
export const measureGrowth = async (
  { few, many }: { few: { url: string; size: number }; many: { url: string; size: number } },
  { rounds: count, ms, warmUpMs, log }: Pick<HttpPlan, "rounds" | "ms" | "warmUpMs" | "log">,
): Promise<Case[]> => {
  log(`Growth from ${few.size.toLocaleString("en")} to ${many.size.toLocaleString("en")} delegations`);
  const stage = new Stage();
  const rounds = await Rounds.open(many.url);
  try {
    const subjects = async ({ url, size }: { url: string; size: number }) => {
      const api = await stage.startApi(url, OUT_OF_REACH);
      const key = await createKey(url);
      return ALL_CHECKS.map((kind) => checkOf(api, kind, size, key));
    };
    const [before, after] = await Promise.all([subjects(few), subjects(many)]);
    for (const ofProcess of [before, after]) await rounds.warmUp(ofProcess, warmUpMs);
    const measured = await rounds.measure([...before, ...after], { connections: 1, ms: ms / 2, rounds: count });
    return after.map((subject, index) => {
      const figures = of(measured, subject);
      const comparison = compare({
        baseline: `${few.size.toLocaleString("en")} delegations`,
        unit: "ms p50",
        ours: figures.p50Ms,
        theirs: of(measured, before[index] ?? subject).p50Ms,
        target: { atMost: 1.3 },
      });
      return {
        name: `${subject.name}, ${many.size.toLocaleString("en")} delegations`,
        figures,
        comparisons: [comparison],
      };
    });
  } finally {
    await rounds.close();
    await stage.end();
  }
};

const throughput = (ours: Figures, theirs: Figures, baseline: string, atLeast: number) =>
  compare({
    baseline,
    unit: "requests/s",
    ours: ours.requestsPerSecond,
    theirs: theirs.requestsPerSecond,
    target: { atLeast },
  });

const of = (measured: ReadonlyMap<Subject, Figures>, subject: Subject): Figures => {
  const figures = measured.get(subject);
  if (!figures) throw new Error(`${subject.name} was not measured.`);
  return figures;
};
