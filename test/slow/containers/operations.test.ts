import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { startApi } from "../../support/api.ts";
import { parseMetrics, samplesOf } from "../../support/metrics.ts";
import { describeWith } from "../../support/programs.ts";
import { createChain, createDatabase, startIndexer, until } from "../../support/setup.ts";

// The files of ops/ agree with the metrics that the service serves, and with the documents.

const ROOT = join(import.meta.dirname, "../../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

type Panel = {
  id: number;
  type: string;
  title: string;
  description?: string;
  datasource?: { uid: string };
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { expr: string; datasource: { uid: string } }[];
  fieldConfig?: { defaults: { unit?: string } };
  options?: { yAxis?: { unit?: string } };
};

const dashboard = JSON.parse(read("ops/grafana/dashboards/registry.json")) as { uid: string; panels: Panel[] };
const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
const alerts = read("ops/prometheus/alerts.yml")
  .split(/^ {6}- alert: /m)
  .slice(1);
const guide = read("docs/operating.md");

/** The names of metrics in a text. A schema is called ponder_sync. */
const metricsIn = (text: string): string[] => [
  ...new Set(text.match(/\b(delegation_registry|ponder(?!_sync\b)|process|nodejs)_\w+/g) ?? []),
];

const runPromtool = async (...args: string[]) => {
  const { stdout } = await promisify(execFile)("promtool", args, { cwd: ROOT });
  return stdout;
};

describeWith(["promtool"], "promtool", () => {
  test("accepts the configuration, and every alert fires when it should and not otherwise", async () => {
    expect(await runPromtool("check", "config", "ops/prometheus/prometheus.yml")).toContain("SUCCESS");
    expect(await runPromtool("test", "rules", "ops/prometheus/alerts.test.yml")).toContain("SUCCESS");
    const tests = read("ops/prometheus/alerts.test.yml");
    for (const alert of alerts) expect(tests).toContain(alert.split("\n")[0]);
  });

  test("accepts every expression of the dashboard", async () => {
    const directory = mkdtempSync(join(tmpdir(), "delegation-registry-rules-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const rules = expressions.map((expr, index) => ({
      record: `panel:${index}`,
      expr: expr.replaceAll("$__rate_interval", "1m"),
    }));
    // JSON is YAML, too.
    writeFileSync(join(directory, "rules.yml"), JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
    expect(await runPromtool("check", "rules", join(directory, "rules.yml"))).toContain(`${rules.length} rules found`);
  });
});

test("every alert has a summary, a description, a severity, and a section in docs/operating.md", () => {
  expect(alerts.length).toBeGreaterThan(10);
  for (const alert of alerts) {
    const [name = ""] = alert.split("\n");
    expect(alert).toMatch(/severity: (critical|warning)\n/);
    expect(alert).toMatch(/summary: \S/);
    expect(alert).toMatch(/description: \S.{60}/);
    expect(alert).toContain(`runbook: docs/operating.md#${name.toLowerCase()}\n`);
    expect(guide).toContain(`\n#### ${name}\n`);
  }
  expect(guide.match(/^#### /gm)).toHaveLength(alerts.length);
});

test("the dashboard reads from the provisioned data source, and every panel has a description and a unit", () => {
  const { panels } = dashboard;
  const [, uid] = /uid: (\S+)/.exec(read("ops/grafana/provisioning/datasources/prometheus.yml")) ?? [];
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  for (const { type, title, description = "", datasource, targets = [], fieldConfig, options } of panels) {
    expect(title).not.toBe("");
    if (type === "row") continue;
    expect(description.length, title).toBeGreaterThan(20);
    expect(targets.length, title).toBeGreaterThan(0);
    for (const source of [datasource, ...targets.map((target) => target.datasource)]) expect(source?.uid).toBe(uid);
    if (type !== "table") expect(fieldConfig?.defaults.unit ?? options?.yAxis?.unit, title).toBeTruthy();
  }
});

test("no panel of the dashboard overlaps another", () => {
  const taken = new Map<string, string>();
  for (const { title, gridPos } of dashboard.panels) {
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      expect(x, title).toBeLessThan(24);
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        expect(taken.get(`${x} ${y}`), title).toBeUndefined();
        taken.set(`${x} ${y}`, title);
      }
    }
  }
});

test("API and indexer serve every metric that alerts, dashboard and docs name, and docs name every metric of the API", async () => {
  const chain = await createChain(1);
  const databaseUrl = await createDatabase();
  const indexer = await startIndexer({ databaseUrl, chains: [chain] });
  // Without its store the API limits by itself, and has metrics of that.
  const api = await startApi({ databaseUrl, env: { RATE_LIMIT_STORE: "redis://127.0.0.1:1" } });
  await until("the API answers for the chain", async () =>
    samplesOf(parseMetrics(await api.metrics()), "chain_answered").some(({ value }) => value === 1),
  );

  const ofApi = namesOf(await api.metrics());
  const ofIndexer = namesOf(await (await fetch(`http://127.0.0.1:${indexer.port}/metrics`)).text());
  const named = metricsIn([...alerts, ...expressions].join("\n"));
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((name) => !ofApi.series.has(name) && !ofIndexer.series.has(name))).toEqual([]);

  const documented = metricsIn(guide).filter((name) => !/_(process|nodejs)_$|^(process|nodejs)_$/.test(name));
  const served = new Set([...ofApi.families, ...ofIndexer.families]);
  expect(documented.filter((name) => !served.has(name))).toEqual([]);
  const own = [...ofApi.families].filter((name) => !/^delegation_registry_(process|nodejs)_/.test(name));
  expect(own.filter((name) => !documented.includes(name))).toEqual([]);
  expect(own.length).toBeGreaterThan(15);
});

/** The families of a text of metrics, and the names of their series. */
const namesOf = (text: string) => {
  const families = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = "", type]) => ({ name, type }));
  const series = families.flatMap(({ name, type }) =>
    type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
  return { families: new Set(families.map(({ name }) => name)), series: new Set(series) };
};
