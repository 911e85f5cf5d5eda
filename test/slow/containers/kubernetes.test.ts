import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as cnpg from "@kubernetes-models/cloudnative-pg/postgresql.cnpg.io/v1";
import * as prometheus from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";
import * as apps from "kubernetes-models/apps/v1";
import * as autoscaling from "kubernetes-models/autoscaling/v2";
import * as batch from "kubernetes-models/batch/v1";
import * as networking from "kubernetes-models/networking.k8s.io/v1";
import * as policy from "kubernetes-models/policy/v1";
import * as core from "kubernetes-models/v1";
import ts from "typescript";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { describeManifests, type Item, renderOverlays } from "../../support/kubernetes.ts";
import { describeWithPrograms, ROOT } from "../../support/run.ts";

// The manifests of ops/kubernetes against the schemas of Kubernetes and of the operators, which packages of npm have.
// test/unit/kubernetes.test.ts compares them with docker-compose.yml and with the programs.

/** A schema's module and its values. The module's types know every field. */
const SCHEMAS: Record<string, { module: string; models: object }> = {
  v1: { module: "kubernetes-models/v1", models: core },
  "apps/v1": { module: "kubernetes-models/apps/v1", models: apps },
  "autoscaling/v2": { module: "kubernetes-models/autoscaling/v2", models: autoscaling },
  "batch/v1": { module: "kubernetes-models/batch/v1", models: batch },
  "networking.k8s.io/v1": { module: "kubernetes-models/networking.k8s.io/v1", models: networking },
  "policy/v1": { module: "kubernetes-models/policy/v1", models: policy },
  "postgresql.cnpg.io/v1": { module: "@kubernetes-models/cloudnative-pg/postgresql.cnpg.io/v1", models: cnpg },
  "monitoring.coreos.com/v1": {
    module: "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
    models: prometheus,
  },
};

/** Lists values that the schemas refuse. */
const listBadValues = (items: readonly Item[]): string[] =>
  items.flatMap((item) => {
    const { apiVersion, kind, metadata } = item;
    type Model = new (item: Item) => { validate: () => void };
    const Model = (SCHEMAS[apiVersion]?.models as Record<string, Model> | undefined)?.[kind];
    if (!Model) return [`${kind} ${metadata.name}: no schema for ${apiVersion}`];
    try {
      new Model(item).validate();
      return [];
    } catch (error) {
      return [`${kind} ${metadata.name}: ${error}`];
    }
  });

/** Lists fields that the schemas do not have: the validators ignore them, the compiler does not. */
const listBadFields = (items: readonly Item[]): string[] => {
  const source = items.map((item, index) => {
    const type = `import("${SCHEMAS[item.apiVersion]?.module}").I${item.kind}`;
    return `export const item${index}: ${type} = ${JSON.stringify(item)};`;
  });
  const path = join(ROOT, "test/unit/rendered.ts");
  const options: ts.CompilerOptions = {
    ...{ noEmit: true, strict: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022 },
    ...{ module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler },
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (name) => name === path || fileExists(name);
  host.getSourceFile = (name, target) =>
    name === path ? ts.createSourceFile(name, source.join("\n"), target) : getSourceFile(name, target);
  return ts
    .getPreEmitDiagnostics(ts.createProgram([path], options, host))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
};

describeManifests("ops/kubernetes", () => {
  test("has only objects and fields that the schemas know", () => {
    const rendered = renderOverlays();
    const items = Object.values(rendered).flat();
    expect(listBadValues(items)).toEqual([]);
    const api = rendered.small.find(({ kind, metadata }) => kind === "Deployment" && metadata.name === "api");
    if (!api) throw new Error("There is no Deployment api.");
    // Both find what they are for.
    const spoil = (spec: object) => ({ ...api, spec: { ...api.spec, ...spec } });
    expect(listBadValues([spoil({ replicas: "two" })])).toEqual([expect.stringContaining("replicas")]);
    expect(listBadFields([...items, spoil({ replica: 2 })])).toEqual([expect.stringContaining('"replica"')]);
  });

  describeWithPrograms(["jq"], "docs/kubernetes.md", () => {
    const blocks = [...readFileSync(join(ROOT, "docs/kubernetes.md"), "utf8").matchAll(/^ *```sh\n(.*?)^ *```/gms)];
    /** Runs the block with a text, with what kubectl would read as its input, and returns what it would be given. */
    const runBlock = (text: string, input = ""): string => {
      const block = blocks.map(([, code = ""]) => code).find((code) => code.includes(text)) ?? "false";
      const script = block.replaceAll(/kubectl (get|apply)[^|\n]*/g, "cat ").replaceAll(/kubectl delete.*/g, "");
      return execFileSync("sh", ["-c", script], { cwd: ROOT, input, encoding: "utf8" });
    };

    test("makes Jobs of the running indexers, which end when the new index has taken over", () => {
      const isIndexer = ({ kind, metadata: { name } }: Item) => kind === "Deployment" && name.startsWith("indexer-");
      const indexers = renderOverlays()["many-networks"].filter(isIndexer);
      const printed = runBlock("-previous", JSON.stringify({ items: indexers }));
      const jobs: Item[] = JSON.parse(`[${printed.replaceAll("\n}\n{", "\n},\n{")}]`);
      expect(jobs.map(({ metadata }) => metadata.name)).toEqual(
        indexers.map(({ metadata }) => `${metadata.name}-previous`),
      );
      expect(listBadValues(jobs)).toEqual([]);
      expect(jobs.map(({ spec }) => spec.template)).toEqual(
        indexers.map(({ spec: { template } }) => ({
          ...template,
          spec: { ...template.spec, restartPolicy: "OnFailure" },
        })),
      );
    });

    test("makes a PrometheusRule of the alerts", () => {
      const rule: Item = parse(runBlock("PrometheusRule"));
      expect(listBadValues([rule])).toEqual([]);
      const alerts = readFileSync(join(ROOT, "ops/prometheus/alerts.yml"), "utf8");
      expect(rule.spec).toEqual(
        parse(alerts.replaceAll(/job="[a-z]+"/g, (job) => `${job}, namespace="delegation-registry"`)),
      );
      expect(JSON.stringify(rule.spec)).not.toMatch(/job=\\"[a-z]+\\"}/);
    });
  });
});
