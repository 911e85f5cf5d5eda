import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { describe } from "vitest";
import { parseAllDocuments } from "yaml";
import { findProgram, ROOT } from "./run.ts";

const FOLDER = join(ROOT, "ops/kubernetes");

/** The release of kustomize in kubectl; 0 without kubectl, or in one that is too old to say. */
const kustomizeRelease = (): number => {
  if (findProgram("kubectl") === null) return 0;
  const { kustomizeVersion = "v0" } = JSON.parse(
    execFileSync("kubectl", ["version", "--client", "--output=json"], { encoding: "utf8" }),
  );
  return Number(/^v(\d+)/.exec(kustomizeVersion)?.[1]);
};

/** Describes tests of the rendered manifests. Without kubectl they are skipped, and the title says so. */
export const describeManifests = (title: string, tests: () => void) => {
  const isMissing = kustomizeRelease() < 5;
  describe.skipIf(isMissing)(isMissing ? `${title} [LEFT OUT: needs kubectl 1.27 or newer]` : title, tests);
};

type Env = { name: string; value?: string; valueFrom?: { secretKeyRef?: { name: string; key: string } } };
type Probe = { httpGet?: { path: string; port: string }; exec?: { command: string[] } };
export type Container = {
  name: string;
  image: string;
  command: string[];
  ports?: { name: string; containerPort: number }[];
  env?: Env[];
  envFrom?: { configMapRef?: { name: string }; secretRef?: { name: string } }[];
  securityContext: object;
  resources: { requests: object; limits: { memory: string } };
  readinessProbe?: Probe;
};
type PodSpec = { containers: [Container]; securityContext: object; terminationGracePeriodSeconds?: number };
export type Template = {
  metadata: { labels: Record<string, string>; annotations?: Record<string, string> };
  spec: PodSpec;
};
export type Item = {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string };
  data?: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: specs of many kinds, whose fields the schemas verify
  spec: any;
};

const render = (folder: string): Item[] =>
  parseAllDocuments(execFileSync("kubectl", ["kustomize", folder], { encoding: "utf8" })).map((document) =>
    document.toJS(),
  );

/** Renders an overlay with all components. */
const renderEverything = (): Item[] => {
  const folder = mkdtempSync(join(tmpdir(), "kustomize-"));
  try {
    const path = (name: string) => relative(folder, join(FOLDER, name));
    const components = readdirSync(join(FOLDER, "components")).filter((name) => name !== "indexers");
    const kustomization = {
      resources: [path("overlays/many-networks")],
      components: components.map((name) => path(`components/${name}`)),
      namespace: "delegation-registry",
    };
    writeFileSync(join(folder, "kustomization.yaml"), JSON.stringify(kustomization));
    return render(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
};

export const OVERLAYS = ["small", "many-networks", "everything"] as const;
export type Rendered = Record<(typeof OVERLAYS)[number], Item[]>;

/** Renders the overlays, and one of them with all components. */
export const renderOverlays = (): Rendered => ({
  small: render(join(FOLDER, "overlays/small")),
  "many-networks": render(join(FOLDER, "overlays/many-networks")),
  everything: renderEverything(),
});
