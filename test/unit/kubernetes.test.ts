import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { API_VARIABLES, parseApiSettings } from "../../api/settings.ts";
import { ROLES_VARIABLES } from "../../commands/roles/settings.ts";
import { INDEXER_VARIABLES, parseIndexerSettings } from "../../indexer/settings.ts";
import {
  type Container,
  describeManifests,
  type Item,
  OVERLAYS,
  type Rendered,
  renderOverlays,
  type Template,
} from "../support/kubernetes.ts";
import { ROOT } from "../support/run.ts";

// The manifests of ops/kubernetes as kustomize renders them, against docker-compose.yml and against what the programs
// read. test/slow/containers/kubernetes.test.ts has the schemas.

const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

const isIndexer = ({ kind, metadata: { name } }: Item) => kind === "Deployment" && name.startsWith("indexer-");
const isPodOwner = ({ kind }: Item) => kind === "Deployment" || kind === "Job";
const find = (items: readonly Item[], kind: string, name: string): Item => {
  const item = items.find((item) => item.kind === kind && item.metadata.name === name);
  if (!item) throw new Error(`There is no ${kind} ${name}.`);
  return item;
};
const templateOf = (item: Item): Template => item.spec.template;
const containerOf = (item: Item): Container => templateOf(item).spec.containers[0];

/** The environment of a container, as Kubernetes makes it from the manifests; "secret" for what they refer to. */
const environmentOf = (items: readonly Item[], item: Item): Record<string, string> => {
  const { env = [], envFrom = [] } = containerOf(item);
  const { labels, annotations = {} } = templateOf(item).metadata;
  const fields: Record<string, string | undefined> = {
    SHARD: labels["delegation-registry/shard"],
    CHAINS: annotations["delegation-registry/chains"],
  };
  return Object.assign(
    {},
    ...envFrom.map(({ configMapRef }) => configMapRef && find(items, "ConfigMap", configMapRef.name).data),
    ...env.map(({ name, value }) => ({
      [name]: value?.replaceAll(/\$\(\w+\)/g, "secret") ?? fields[name] ?? "secret",
    })),
  );
};

/** Names of the Pods that a selector selects, as in docs/kubernetes.md. */
const PODS: Record<string, string> = {
  postgres: "Postgres",
  api: "API",
  indexer: "indexers",
  roles: "the Job `roles`",
  valkey: "Valkey",
};
type Selector = { matchLabels?: Record<string, string> };
const namePods = ({ matchLabels = {} }: Selector): string => {
  const [name] = Object.values(matchLabels);
  return name ? (PODS[name] ?? name) : "all Pods";
};

type Peer = { podSelector?: Selector; namespaceSelector?: Selector; ipBlock?: { cidr: string; except?: string[] } };
const PUBLIC =
  "0.0.0.0/0 except 10.0.0.0/8,100.64.0.0/10,127.0.0.0/8,169.254.0.0/16,172.16.0.0/12,192.168.0.0/16" +
  " and ::/0 except fc00::/7,fe80::/10";
const namePeer = ({ podSelector, namespaceSelector }: Peer): string => {
  if (podSelector) return namePods(podSelector);
  if (!namespaceSelector) return "any address";
  const [[label, value] = []] = Object.entries(namespaceSelector.matchLabels ?? {});
  return label === "kubernetes.io/metadata.name" ? `namespace \`${value}\`` : `namespaces with \`${label}=${value}\``;
};
const namePeers = (peers: Peer[]): string[] => {
  const addresses = peers.flatMap(({ ipBlock }) => (ipBlock ? `${ipBlock.cidr} except ${ipBlock.except}` : []));
  if (addresses.join(" and ") === PUBLIC) return ["public addresses"];
  return addresses.length > 0 ? addresses : peers.map(namePeer);
};

/** docker-compose.yml with the defaults of its variables. */
const services: Record<
  string,
  {
    image: string;
    command: string[];
    mem_limit: string;
    user?: string;
    stop_grace_period?: string;
    environment: Record<string, string | number | null>;
    healthcheck: { test: string[] };
  }
> = parse(read("docker-compose.yml").replaceAll(/\$\{[A-Z_]+:?-?([^}]*)\}/g, "$1"), { merge: true }).services;

/** Settings of a file: set, or commented out. */
const listSettings = (file: string): string[] =>
  [...read(`ops/kubernetes/base/${file}`).matchAll(/^(?:# )?([A-Z][A-Z0-9_]*)=/gm)].map(([, name = ""]) => name);

describeManifests("ops/kubernetes", () => {
  let rendered: Rendered;
  beforeAll(() => {
    rendered = renderOverlays();
  });

  describe.for(OVERLAYS)("%s", (overlay) => {
    let items: Item[];
    beforeAll(() => {
      items = rendered[overlay];
    });
    const labelsOf = (item: Item) =>
      item.kind === "Cluster" ? { "cnpg.io/cluster": item.metadata.name } : templateOf(item).metadata.labels;
    const select = (labels: object) =>
      items
        .filter((item) => isPodOwner(item) || item.kind === "Cluster")
        .filter((item) => Object.entries(labels).every(([name, value]) => labelsOf(item)[name] === value));

    test("gives no Pod root, privileges, capabilities or a writable root file system, and limits its memory", () => {
      for (const item of items.filter(isPodOwner)) {
        const { spec } = templateOf(item);
        const { name } = item.metadata;
        expect(spec, name).toMatchObject({
          automountServiceAccountToken: false,
          // Otherwise Services set variables such as INDEXER_PORT.
          enableServiceLinks: false,
          securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
        });
        expect(spec.securityContext, name).toMatchObject({ runAsUser: name === "valkey" ? 65534 : 1000 });
        for (const container of spec.containers) {
          expect(container.securityContext, name).toEqual({
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          });
          expect(container.resources, name).toMatchObject({
            requests: { cpu: expect.any(String), memory: expect.any(String) },
            limits: { memory: expect.any(String) },
          });
        }
      }
    });

    test("takes secrets by reference, each Pod only its own", () => {
      expect(items.filter(({ kind }) => kind === "Secret")).toEqual([]);
      const secretsOf = (item: Item) => {
        const { env = [], envFrom = [] } = containerOf(item);
        const keys = env.flatMap(({ valueFrom }) => valueFrom?.secretKeyRef ?? []).map(({ key }) => key);
        return [...keys, ...envFrom.flatMap(({ secretRef }) => secretRef?.name ?? [])].sort();
      };
      for (const item of items.filter(isPodOwner)) {
        const { name } = item.metadata;
        const expected = isIndexer(item)
          ? ["INDEXER_PASSWORD", "rpc"]
          : {
              api: ["API_PASSWORD", ...(overlay === "everything" ? ["api-rpc"] : [])],
              roles: ["ANALYST_PASSWORD", "API_PASSWORD", "INDEXER_PASSWORD", "password"],
              valkey: [],
            }[name];
        expect(secretsOf(item), name).toEqual(expected);
      }
    });

    test("sets what the programs accept", () => {
      const api = environmentOf(items, find(items, "Deployment", "api"));
      const settings = parseApiSettings(api);
      expect(settings.trustedProxies).not.toBeNull();
      expect(settings.databaseReadUrl).toBe(
        overlay === "small" ? null : "postgres://delegation_api:secret@postgres-replica:5432/registry",
      );
      expect(settings.webhooks !== null).toBe(overlay === "everything");
      expect(settings.publicUrl).toBe(`https://${find(items, "Ingress", "api").spec.rules[0].host}`);

      const shards = items.filter(isIndexer).map((item) => {
        const environment = environmentOf(items, item);
        const rpcs = (environment.CHAINS || "1")
          .split(",")
          .map((id) => [`PONDER_RPC_URL_${id}`, "https://rpc.example"]);
        const { shard, chains } = parseIndexerSettings({ ...environment, ...Object.fromEntries(rpcs) });
        expect(item.metadata.name).toBe(`indexer-${shard}`);
        return { shard, chains: chains.map(({ network }) => network.chainId) };
      });
      // One list of shards for indexers, API and roles; each chain once.
      expect(settings.shards).toEqual(shards.map(({ shard }) => shard));
      const chains = shards.flatMap(({ chains }) => chains);
      expect(new Set(chains).size).toBe(chains.length);
      expect(environmentOf(items, find(items, "Job", "roles"))).toMatchObject({ INDEX_SCHEMAS: api.INDEX_SCHEMAS });
    });

    test("never runs two indexers of a shard", () => {
      for (const { metadata, spec } of items.filter(isIndexer)) {
        expect(spec, metadata.name).toMatchObject({ replicas: 1, strategy: { type: "Recreate" } });
      }
    });

    test("has selectors and ports that exist", () => {
      const portsOf = (item: Item) =>
        item.kind === "Cluster"
          ? [5432, 8000, 9187]
          : (containerOf(item).ports ?? []).flatMap((port) => [port.name, port.containerPort]);
      type Port = { port: string | number; targetPort?: string };
      for (const { kind, metadata, spec = {} } of items) {
        const labels = kind === "Service" ? spec.selector : (spec.podSelector ?? spec.selector)?.matchLabels;
        if (!labels) continue;
        const inbound = (spec.ingress ?? []).flatMap(({ ports }: { ports: Port[] }) => ports);
        const ports: Port[] = [...(spec.ports ?? []), ...(spec.podMetricsEndpoints ?? []), ...inbound];
        const wanted = ports.map(({ port, targetPort }) => targetPort ?? port);
        const selected = select(labels);
        expect(selected.length, `${kind} ${metadata.name}`).toBeGreaterThan(0);
        for (const item of selected) {
          expect(portsOf(item), `${kind} ${metadata.name}`).toEqual(expect.arrayContaining(wanted));
        }
      }
    });

    test("lets Pods talk as docs/kubernetes.md says, and to nothing else", () => {
      const policies = items.filter(({ kind }) => kind === "NetworkPolicy");
      expect(find(items, "NetworkPolicy", "default-deny").spec).toEqual({
        podSelector: {},
        policyTypes: ["Ingress", "Egress"],
      });
      const ports = Object.fromEntries(
        items
          .filter(isPodOwner)
          .flatMap((item) => containerOf(item).ports ?? [])
          .map((it) => [it.name, it.containerPort]),
      );
      type Rule = { from?: Peer[]; to?: Peer[]; ports: { port: string | number; protocol?: string }[] };
      const list = (rules: Rule[] = [], join: (peer: string) => string) =>
        rules.flatMap(({ from, to, ports: allowed }) =>
          namePeers(from ?? to ?? [{}]).flatMap((peer) =>
            allowed.map(
              ({ port, protocol = "TCP" }) =>
                `${join(peer)}: ${ports[port] ?? port}${protocol === "TCP" ? "" : ` ${protocol}`}`,
            ),
          ),
        );
      const inbound = policies.flatMap(({ spec }) =>
        list(spec.ingress, (peer) => `${peer} → ${namePods(spec.podSelector)}`),
      );
      const outbound = policies.flatMap(({ spec }) =>
        list(spec.egress, (peer) => `${namePods(spec.podSelector)} → ${peer}`),
      );

      const [, table = ""] = /^\| from \| to \| port \| .*\n.*\n((?:\|.*\n)+)/m.exec(read("docs/kubernetes.md")) ?? [];
      const documented = [...table.matchAll(/^\| (.*?) \| (.*?) \| (.*?) \| (.*?) ?\|$/gm)]
        .filter(([, , , , component]) => overlay === "everything" || component === "")
        .flatMap(([, from, to, ports = ""]) => ports.split(", ").map((port) => `${from} → ${to}: ${port}`));
      // Between two of our Pods, both have to allow it.
      const isOurs = (allowed: string) =>
        allowed.split(/ → |: /).filter((name) => Object.values(PODS).includes(name)).length === 2;
      expect([...new Set([...inbound, ...outbound])].sort()).toEqual(documented.sort());
      expect(inbound.filter(isOurs).sort()).toEqual(documented.filter(isOurs).sort());
      expect(outbound.filter(isOurs).sort()).toEqual(documented.filter(isOurs).sort());
    });

    test("has a disruption budget of Postgres only with replicas, which otherwise keeps a node from being drained", () => {
      const { instances, enablePDB = true } = find(items, "Cluster", "postgres").spec;
      expect(enablePDB).toBe(instances > 1);
    });

    test("leads an API Pod to one replica", () => {
      const { databaseReadUrl } = parseApiSettings(environmentOf(items, find(items, "Deployment", "api")));
      const { managed } = find(items, "Cluster", "postgres").spec;
      if (databaseReadUrl === null) return expect(managed).toBeUndefined();
      const { hostname: name } = new URL(databaseReadUrl);
      const spec = { sessionAffinity: "ClientIP", sessionAffinityConfig: expect.anything() };
      expect(managed.services.additional).toEqual([
        { selectorType: "ro", serviceTemplate: { metadata: { name }, spec } },
      ]);
    });

    test("has connections for all Pods at their greatest number", () => {
      const connections = Number(/opens up to (\d+) connections to Postgres/.exec(read("docs/operating.md"))?.[1]);
      const shards = items.filter(isIndexer);
      const { maxReplicas } = find(items, "HorizontalPodAutoscaler", "api").spec;
      const { max_connections } = find(items, "Cluster", "postgres").spec.postgresql.parameters;
      // Two shards more, for a re-index, and 50 for analysts and the operator. One API more while it rolls.
      expect((maxReplicas + 1) * connections + (shards.length + 2) * 16 + 50).toBeLessThanOrEqual(
        Number(max_connections),
      );
    });

    test("has the images, commands, ports, health checks, memory and settings of docker-compose.yml", () => {
      const mb = (text: string) => Number.parseInt(text, 10) * (/g/i.test(text) ? 1024 : 1);
      const { version } = JSON.parse(read("package.json"));
      for (const item of items.filter(isPodOwner)) {
        const name = item.metadata.name.replace(/^indexer-.*/, "indexer");
        const service = services[name];
        if (!service) throw new Error(`docker-compose.yml has no ${name}.`);
        const { image, command, resources, readinessProbe, ports = [] } = containerOf(item);
        expect(image, name).toBe(name === "valkey" ? service.image : `delegation-registry:${version}`);
        expect(command, name).toEqual(service.command);
        expect(mb(resources.limits.memory), name).toBe(mb(service.mem_limit));
        const { terminationGracePeriodSeconds: grace } = templateOf(item).spec;
        if (grace) expect(grace, name).toBeGreaterThanOrEqual(Number.parseInt(service.stop_grace_period ?? "", 10));

        const { httpGet, exec } = readinessProbe ?? {};
        const port = ports.find(({ name }) => name === httpGet?.port)?.containerPort;
        if (httpGet) expect(service.healthcheck.test.at(-1), name).toBe(`http://127.0.0.1:${port}${httpGet.path}`);
        if (exec) expect(["CMD", ...exec.command], name).toEqual(service.healthcheck.test);

        if (name === "valkey") continue;
        const environment = environmentOf(items, item);
        for (const [setting, value] of Object.entries(service.environment)) {
          // An empty value leaves it to the program. The API trusts another proxy here.
          if (value === null || value === "" || setting === "TRUST_PROXY" || /PASSWORD|DATABASE/.test(setting))
            continue;
          expect(environment[setting], `${name}: ${setting}`).toBe(String(value));
        }
        const { username, pathname } = new URL(environment.DATABASE_URL ?? "");
        expect([username, pathname], name).toEqual([name === "roles" ? "postgres" : `delegation_${name}`, "/registry"]);
      }
      const major = services.postgres?.image.replace("postgres:", "postgresql:");
      expect(find(items, "Cluster", "postgres").spec.imageName).toMatch(new RegExp(`/${major}-`));
    });
  });

  test("has the shards of ops/compose/shards.yml in many-networks", () => {
    const compose = Object.entries(parse(read("ops/compose/shards.yml")).services as typeof services)
      .filter(([name]) => name.startsWith("indexer"))
      .map(([, { environment }]) => [environment.SHARD, environment.CHAINS]);
    const deployments = rendered["many-networks"].filter(isIndexer);
    const kubernetes = deployments.map((item) => {
      const { SHARD, CHAINS } = environmentOf(rendered["many-networks"], item);
      return [SHARD, CHAINS];
    });
    expect(kubernetes).toEqual(compose);
  });
});

test.for(["small", "many-networks"])("the overlay %s has the image of this version", (overlay) => {
  const { images } = parse(read(`ops/kubernetes/overlays/${overlay}/kustomization.yaml`));
  expect(images).toMatchObject([{ name: "delegation-registry", newTag: JSON.parse(read("package.json")).version }]);
});

describe("the settings of ops/kubernetes", () => {
  /** Settings that a manifest sets, or that a Secret has. */
  const listNamed = (file: string) => read(`ops/kubernetes/${file}`).match(/[A-Z][A-Z0-9_]+/g);

  test.for([
    ["api.env", API_VARIABLES],
    ["indexer.env", INDEXER_VARIABLES],
  ] as const)("%s names every setting, set or with its default, and no other", ([file, variables]) => {
    const named = new Set(listNamed(`base/${file}`));
    expect(variables.filter((name) => !named.has(name))).toEqual([]);
    expect(listSettings(file).filter((name) => !variables.includes(name))).toEqual([]);
  });

  test("roles.yaml sets what has no default", () => {
    const named = new Set(listNamed("base/roles.yaml"));
    expect(ROLES_VARIABLES.filter((name) => !named.has(name))).toEqual([
      "INDEX_SCHEMAS",
      ...ROLES_VARIABLES.filter((name) => name.endsWith("_ROLE")),
    ]);
  });

  test("api.env and indexer.env show the defaults", () => {
    const defaults = (file: string) =>
      Object.fromEntries(
        [...read(`ops/kubernetes/base/${file}`).matchAll(/^# ([A-Z][A-Z0-9_]*)=(.*)$/gm)].map(([, name, value]) => [
          name,
          value,
        ]),
      );
    const RPC = { PONDER_RPC_URL_1: "https://rpc.example" };
    expect(parseApiSettings(defaults("api.env"))).toEqual(parseApiSettings({}));
    expect(parseIndexerSettings({ ...RPC, ...defaults("indexer.env") })).toEqual(parseIndexerSettings(RPC));
  });
});
