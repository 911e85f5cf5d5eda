import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { startTestApi } from "../../support/api.ts";
import { findSamples, parseMetrics } from "../../support/metrics.ts";
import { describeWithPrograms, ROOT } from "../../support/run.ts";
import { createChain, createDatabase, startIndexer, waitUntil } from "../../support/setup.ts";

// Compares the files of ops/ with the service's metrics and with docs/operating.md.

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

/** Finds metric names in a text. ponder_sync is a schema. */
const findMetricNames = (text: string): string[] => [
  ...new Set(text.match(/\b(delegation_registry|ponder(?!_sync\b)|process|nodejs)_\w+/g) ?? []),
];

const runPromtool = async (...args: string[]) => {
  const { stdout } = await promisify(execFile)("promtool", args, { cwd: ROOT });
  return stdout;
};

describeWithPrograms(["promtool"], "promtool", () => {
  test("accepts the configuration, and the rule tests cover every alert", async () => {
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
    // JSON is valid YAML.
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

test("the dashboard uses the provisioned data source, and every panel has a description and a unit", () => {
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

test("the dashboard's panels do not overlap", () => {
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

test("API and indexer serve every metric of alerts, dashboard and docs, and docs list every metric of the API", async () => {
  const chain = await createChain(1);
  const databaseUrl = await createDatabase();
  const indexer = await startIndexer({ databaseUrl, chains: [chain] });
  // Without its store the API limits per process, and reports that in metrics.
  const api = await startTestApi({ databaseUrl, env: { RATE_LIMIT_STORE: "redis://127.0.0.1:1" } });
  await waitUntil("the API answers for the chain", async () =>
    findSamples(parseMetrics(await api.metrics()), "chain_answered").some(({ value }) => value === 1),
  );

  const ofApi = namesOf(await api.metrics());
  const ofIndexer = namesOf(await (await fetch(`http://127.0.0.1:${indexer.port}/metrics`)).text());
  const named = findMetricNames([...alerts, ...expressions].join("\n"));
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((name) => !ofApi.series.has(name) && !ofIndexer.series.has(name))).toEqual([]);

  const documented = findMetricNames(guide).filter((name) => !/_(process|nodejs)_$|^(process|nodejs)_$/.test(name));
  const served = new Set([...ofApi.families, ...ofIndexer.families]);
  expect(documented.filter((name) => !served.has(name))).toEqual([]);
  const own = [...ofApi.families].filter((name) => !/^delegation_registry_(process|nodejs)_/.test(name));
  expect(own.filter((name) => !documented.includes(name))).toEqual([]);
  expect(own.length).toBeGreaterThan(15);
});

/** Parses the metric families and the names of their series. */
const namesOf = (text: string) => {
  const families = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = "", type]) => ({ name, type }));
  const series = families.flatMap(({ name, type }) =>
    type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
  return { families: new Set(families.map(({ name }) => name)), series: new Set(series) };
};
