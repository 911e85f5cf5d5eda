import { CHECKS } from "../registry/checks.ts";
import { compare } from "./comparison.ts";
import type { Case } from "./report.ts";
import { type Figures, Rounds, type Subject } from "./rounds.ts";
import { createKey, HIGH_RATE_LIMIT, type Server, Servers } from "./servers.ts";
import {
  BULK_SIZE,
  bareSubject,
  bulkSubject,
  checkSubject,
  getCheck,
  longListSubject,
  pastCheckSubject,
  ponderCheckSubject,
  querySubject,
  shortListSubject,
} from "./subjects.ts";

// Measures the service over HTTP beside its baselines.

const ofWallet = getCheck("v2", "all");

export type Timing = {
  rounds: number;
  /** Length of a round. */
  ms: number;
  /** Warm-up time of each process. */
  warmUpMs: number;
};

type HttpPlan = Timing & {
  databaseUrl: string;
  /** Delegations in each registry of the database. */
  delegations: number;
  log: (message: string) => void;
};

type Context = { plan: HttpPlan; servers: Servers; rounds: Rounds };
type Results = ReadonlyMap<Subject, Figures>;

export const CONNECTIONS = 64;
/** A long list is many times the work of a check. */
const LIST_CONNECTIONS = 8;
const STREAMS = 1_000;
const STREAMS_OF_KEY = 50;

export const measureHttp = async (plan: HttpPlan): Promise<Case[]> => {
  const servers = new Servers();
  const rounds = await Rounds.open(plan.databaseUrl);
  try {
    const context = { plan, servers, rounds };
    const api = await servers.startApi(plan.databaseUrl, HIGH_RATE_LIMIT);
    const key = await createKey(plan.databaseUrl);
    return [
      ...(await measureAgainstBaselines(context, api, key)),
      ...(await measurePast(context, api, key)),
      ...(await measureBulk(context, api, key)),
      ...(await measureStreams(context)),
      ...(await measureRefusals(context)),
    ];
  } finally {
    await rounds.close();
    await servers.stop();
  }
};

type Subjects = Awaited<ReturnType<typeof createSubjects>>;

const createSubjects = async ({ plan, servers }: Context, api: Server, key: string) => {
  const { databaseUrl, delegations: size } = plan;
  const [memoryApi, ponder, forBare, forQuery, forDrizzle] = await Promise.all([
    servers.startMemoryApi(databaseUrl, HIGH_RATE_LIMIT),
    servers.startPonder(databaseUrl),
    // Each baseline runs in its own process: beside other routes, Node compiles slower code for it.
    servers.startBaselines(databaseUrl),
    servers.startBaselines(databaseUrl),
    servers.startBaselines(databaseUrl),
  ]);
  return {
    bare: bareSubject(forBare),
    query: querySubject(forQuery, size),
    checks: CHECKS.map((check) => checkSubject(api, check, size, key)),
    memoryChecks: CHECKS.map((check) => checkSubject(memoryApi, check, size, key)),
    ponderChecks: CHECKS.map((check) => ponderCheckSubject(ponder, check, size)),
    shortList: shortListSubject(api, size, key),
    longList: longListSubject(api, size, (wallet) => `/registry/v2/${wallet}?numbers=string`, { "X-API-KEY": key }),
    drizzle: longListSubject(forDrizzle, size, (wallet) => `/list-drizzle/${wallet}`),
  };
};

const measureAgainstBaselines = async (context: Context, api: Server, key: string): Promise<Case[]> => {
  const { plan, rounds } = context;
  const { rounds: count, ms, warmUpMs, log } = plan;
  const subjects = await createSubjects(context, api, key);
  const { bare, query, checks, memoryChecks, ponderChecks, shortList, longList, drizzle } = subjects;

  log("Warming up");
  const processes = [[...checks, shortList, longList], memoryChecks, [bare], [query], [drizzle], ponderChecks];
  for (const subjectsOfProcess of processes) await rounds.warmUp(subjectsOfProcess, warmUpMs);

  log(`Checks and short lists, ${CONNECTIONS} connections`);
  const concurrent = await rounds.measure([bare, query, ...checks, ...memoryChecks, shortList, ...ponderChecks], {
    connections: CONNECTIONS,
    ms,
    rounds: count,
  });
  log("Checks, one connection");
  const single = await rounds.measure([query, ...checks], { connections: 1, ms: ms / 2, rounds: count });
  log(`Long lists, ${LIST_CONNECTIONS} connections`);
  const lists = await rounds.measure([longList, drizzle], { connections: LIST_CONNECTIONS, ms, rounds: count });

  return [
    ...reportConcurrentChecks(subjects, concurrent),
    ...reportSingleChecks(subjects, single),
    {
      name: `${shortList.name}, ${CONNECTIONS} connections`,
      figures: figuresOf(concurrent, shortList),
      comparisons: [],
    },
    {
      name: "drizzle rows and JSON.stringify, list of 1,000",
      figures: figuresOf(lists, drizzle),
      comparisons: [],
    },
    {
      name: `${longList.name}, ${LIST_CONNECTIONS} connections`,
      figures: figuresOf(lists, longList),
      comparisons: [compareThroughput(figuresOf(lists, longList), figuresOf(lists, drizzle), "drizzle", 3)],
    },
  ];
};

const reportConcurrentChecks = (subjects: Subjects, results: Results): Case[] => {
  const { bare, query, checks, memoryChecks, ponderChecks } = subjects;
  const queryFigures = figuresOf(results, query);
  return [
    { name: "bare Hono route", figures: figuresOf(results, bare), comparisons: [] },
    { name: "one prepared query per request", figures: queryFigures, comparisons: [] },
    ...checks.map((check, index): Case => {
      const figures = figuresOf(results, check);
      const memoryFigures = figuresOf(results, memoryChecks[index] ?? bare);
      const ponderFigures = figuresOf(results, ponderChecks[index] ?? bare);
      return {
        name: `${check.name}, ${CONNECTIONS} connections`,
        figures,
        comparisons: [
          compareThroughput(figures, memoryFigures, "the same from memory", 0.7),
          compareThroughput(figures, queryFigures, "one query per request", 2),
          compareThroughput(figures, ponderFigures, "Ponder API function", 6),
        ],
      };
    }),
    ...memoryChecks.map((check) => ({
      name: `${check.name} from memory`,
      figures: figuresOf(results, check),
      comparisons: [],
    })),
    ...ponderChecks.map((check) => ({ name: check.name, figures: figuresOf(results, check), comparisons: [] })),
  ];
};

const reportSingleChecks = ({ query, checks }: Subjects, results: Results): Case[] => {
  const queryFigures = figuresOf(results, query);
  return [
    { name: "one prepared query per request, one connection", figures: queryFigures, comparisons: [] },
    ...checks.map((check): Case => {
      const figures = figuresOf(results, check);
      const comparison = compare({
        baseline: "one query per request",
        unit: "ms p50",
        ours: figures.p50Ms,
        theirs: queryFigures.p50Ms,
        target: { atMost: 1.6 },
      });
      return { name: `${check.name}, one connection`, figures, comparisons: [comparison] };
    }),
  ];
};

const PAST_CHECKS = [getCheck("v1", "token"), ofWallet, getCheck("v2", "erc1155")];

export const costOf = ({ apiMicroseconds, postgresMicroseconds }: Figures) => apiMicroseconds + postgresMicroseconds;

/** Compares checks at a past block with the same checks at the newest one. */
const measurePast = async ({ plan, rounds }: Context, api: Server, key: string): Promise<Case[]> => {
  const { delegations: size, rounds: count, ms, warmUpMs, log } = plan;
  log("Checks at a past block");
  const pairs = PAST_CHECKS.map((check) => ({
    now: checkSubject(api, check, size, key),
    past: pastCheckSubject(api, check, size, key),
  }));
  const busy = pastCheckSubject(api, ofWallet, size, key, true);
  const subjects = [...pairs.flatMap(({ now, past }) => [now, past]), busy];
  await rounds.warmUp(subjects, warmUpMs);
  const cases: Case[] = [];
  for (const connections of [1, CONNECTIONS]) {
    const results = await rounds.measure(subjects, { connections, ms: ms / 2, rounds: count });
    const suffix = connections === 1 ? "one connection" : `${connections} connections`;
    const reportCost = (past: Subject, now: Subject): Case => {
      const [ours, theirs] = [figuresOf(results, past), figuresOf(results, now)];
      const names = { baseline: "newest block", unit: "µs of API and Postgres", target: { atMost: 2 } };
      const comparison = compare({ ...names, ours: costOf(ours), theirs: costOf(theirs) });
      return { name: `${past.name}, ${suffix}`, figures: ours, comparisons: [comparison] };
    };
    cases.push(...pairs.map(({ past, now }) => reportCost(past, now)));
    const all = pairs.find(({ now }) => now.name === "v2 check/all");
    if (all) cases.push(reportCost(busy, all.now));
  }
  return cases;
};

/** Compares a check in a body of 1,000 with a single one, and single checks beside such bodies with those alone. */
const measureBulk = async ({ plan, rounds }: Context, api: Server, key: string): Promise<Case[]> => {
  const { databaseUrl, delegations: size, rounds: count, ms, warmUpMs, log } = plan;
  log("Many checks in a body");
  const single = checkSubject(api, ofWallet, size, key);
  const bulk = bulkSubject(api, size, key);
  for (const subject of [single, bulk]) await rounds.warmUp([subject], warmUpMs / 2);
  const concurrent = await rounds.measure([single], { connections: CONNECTIONS, ms, rounds: count });
  const alone = await rounds.measure([bulk], { connections: 1, ms, rounds: count });
  const perCheck = costOf(figuresOf(alone, bulk)) / BULK_SIZE;
  const cheaper = compare({
    baseline: `single checks, ${CONNECTIONS} connections`,
    unit: "µs of API and Postgres for each check",
    ours: perCheck,
    theirs: costOf(figuresOf(concurrent, single)),
    target: { atMost: 0.25 },
  });
  // One client asks single checks, another one sends a body a second.
  const quiet = await rounds.measure([single], { connections: 1, ms, rounds: count });
  const others = await Rounds.open(databaseUrl);
  let isBusy = true;
  const sendBodies = async () => {
    while (isBusy) await others.send(bulk, 1);
  };
  const sending = sendBodies();
  const beside = await rounds.measure([single], { connections: 1, ms, rounds: count });
  isBusy = false;
  await sending;
  await others.close();
  const delayed = compare({
    baseline: "without bodies",
    unit: "ms p50",
    ours: figuresOf(beside, single).p50Ms,
    theirs: figuresOf(quiet, single).p50Ms,
    target: { atMost: 1.1 },
  });
  return [
    {
      name: bulk.name,
      figures: figuresOf(alone, bulk),
      comparisons: [cheaper],
      remark: `${perCheck.toFixed(1)} µs for each check`,
    },
    { name: "v2 check/all beside bodies of 1,000", figures: figuresOf(beside, single), comparisons: [delayed] },
  ];
};

/** Compares checks beside open streams of live changes with those of a process without streams. */
const measureStreams = async ({ plan, servers, rounds }: Context): Promise<Case[]> => {
  const { databaseUrl, delegations: size, rounds: count, ms, warmUpMs, log } = plan;
  log(`Checks beside ${STREAMS} streams`);
  const [quiet, busy] = [
    await servers.startApi(databaseUrl, HIGH_RATE_LIMIT),
    await servers.startApi(databaseUrl, HIGH_RATE_LIMIT),
  ];
  const keys: string[] = [];
  while (keys.length < STREAMS / STREAMS_OF_KEY) keys.push(await createKey(databaseUrl));
  const alone = checkSubject(quiet, ofWallet, size, keys[0]);
  const beside: Subject = {
    ...checkSubject(busy, ofWallet, size, keys[0]),
    name: `${alone.name} beside ${STREAMS} streams`,
  };
  for (const subject of [alone, beside]) await rounds.warmUp([subject], warmUpMs);
  const close = await openStreams(busy, keys);
  // Until all have read how far the network is.
  await rounds.send(beside, LIST_CONNECTIONS, 3_000);
  const results = await rounds.measure([alone, beside], { connections: LIST_CONNECTIONS, ms, rounds: count });
  close();
  const [ours, theirs] = [figuresOf(results, beside), figuresOf(results, alone)];
  const names = { baseline: "without streams", unit: "ms p99", target: { atMost: 1.3 } };
  return [
    { name: `${alone.name}, ${LIST_CONNECTIONS} connections`, figures: theirs, comparisons: [] },
    { name: beside.name, figures: ours, comparisons: [compare({ ...names, ours: ours.p99Ms, theirs: theirs.p99Ms })] },
  ];
};

/** Opens streams, and reads them. @returns closes them */
const openStreams = async ({ port }: Server, keys: readonly string[]): Promise<() => void> => {
  const closing = new AbortController();
  for (const key of keys) {
    const options = { headers: { Accept: "text/event-stream", "X-API-KEY": key }, signal: closing.signal };
    const open = () => fetch(`http://127.0.0.1:${port}/changes?finality=latest`, options);
    for (const { status, body } of await Promise.all(Array.from({ length: STREAMS_OF_KEY }, open))) {
      if (status !== 200) throw new Error(`A stream was answered with ${status}.`);
      body?.pipeTo(new WritableStream()).catch(() => {});
    }
  }
  return () => closing.abort();
};

/** Compares the cost of refusing a request with that of answering one, for a client without a key. */
const measureRefusals = async ({ plan, servers, rounds }: Context): Promise<Case[]> => {
  const { databaseUrl, delegations, rounds: count, ms, warmUpMs, log } = plan;
  log("Refusals");
  const [limited, unlimited] = await Promise.all([
    servers.startApi(databaseUrl),
    servers.startApi(databaseUrl, HIGH_RATE_LIMIT),
  ]);
  const refused: Subject = { ...checkSubject(limited, ofWallet, delegations), name: "refusal", status: 429 };
  const answered: Subject = { ...checkSubject(unlimited, ofWallet, delegations), name: "answer without a key" };
  for (const subject of [refused, answered]) await rounds.warmUp([subject], warmUpMs);
  const cases: Case[] = [];
  for (const connections of [1, CONNECTIONS]) {
    const results = await rounds.measure([refused, answered], { connections, ms, rounds: count });
    const suffix = connections === 1 ? "one connection" : `${connections} connections`;
    const [refusal, answer] = [figuresOf(results, refused), figuresOf(results, answered)];
    const comparison = compare({
      baseline: "answer",
      unit: "µs of API and Postgres",
      ours: refusal.apiMicroseconds + refusal.postgresMicroseconds,
      theirs: answer.apiMicroseconds + answer.postgresMicroseconds,
      target: { atMost: 0.5 },
    });
    cases.push(
      { name: `${answered.name}, ${suffix}`, figures: answer, comparisons: [] },
      { name: `${refused.name}, ${suffix}`, figures: refusal, comparisons: [comparison] },
    );
  }
  return cases;
};

type DataSet = { url: string; size: number };

/** Compares the same checks over few delegations and over many. */
export const measureGrowth = async (
  { few, many }: { few: DataSet; many: DataSet },
  { rounds: count, ms, warmUpMs, log }: Timing & Pick<HttpPlan, "log">,
): Promise<Case[]> => {
  log(`Growth from ${few.size.toLocaleString("en")} to ${many.size.toLocaleString("en")} delegations`);
  const servers = new Servers();
  const rounds = await Rounds.open(many.url);
  try {
    const createChecks = async ({ url, size }: DataSet) => {
      const api = await servers.startApi(url, HIGH_RATE_LIMIT);
      const key = await createKey(url);
      return [
        ...CHECKS.map((check) => checkSubject(api, check, size, key)),
        ...PAST_CHECKS.map((check) => pastCheckSubject(api, check, size, key)),
      ];
    };
    const [before, after] = await Promise.all([createChecks(few), createChecks(many)]);
    for (const subjects of [before, after]) await rounds.warmUp(subjects, warmUpMs);
    const results = await rounds.measure([...before, ...after], { connections: 1, ms: ms / 2, rounds: count });
    return after.map((subject, index) => {
      const figures = figuresOf(results, subject);
      const comparison = compare({
        baseline: `${few.size.toLocaleString("en")} delegations`,
        unit: "ms p50",
        ours: figures.p50Ms,
        theirs: figuresOf(results, before[index] ?? subject).p50Ms,
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
    await servers.stop();
  }
};

export const compareThroughput = (ours: Figures, theirs: Figures, baseline: string, atLeast: number) =>
  compare({
    baseline,
    unit: "requests/s",
    ours: ours.requestsPerSecond,
    theirs: theirs.requestsPerSecond,
    target: { atLeast },
  });

export const figuresOf = (results: Results, subject: Subject): Figures => {
  const figures = results.get(subject);
  if (!figures) throw new Error(`${subject.name} was not measured.`);
  return figures;
};
