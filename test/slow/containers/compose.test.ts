import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { test as base, expect } from "vitest";
import { describeWithPrograms, ROOT } from "../../support/run.ts";
import { readCompose } from "./compose.ts";

// The configuration as docker-compose reads it. stack.test.ts runs it.

const EVERYTHING = [
  "postgres",
  "roles",
  "valkey",
  "indexer",
  "api",
  "proxy",
  "sandbox-chains",
  "prometheus",
  "grafana",
];
/** Settings of real networks, as in .env and .env.indexer. */
const LIVE = {
  INDEXER_ENV_FILE: "test/support/no.env",
  POSTGRES_PASSWORD: "superuser-secret",
  INDEXER_PASSWORD: "indexer-secret",
  API_PASSWORD: "api-secret",
  ANALYST_PASSWORD: "analyst-secret",
  GRAFANA_PASSWORD: "grafana-secret",
};

const test = base
  .extend("sandbox", { scope: "file" }, () => readCompose())
  .extend("live", { scope: "file" }, () => readCompose({ envFile: ".env.example", env: LIVE }));

describeWithPrograms(["docker-compose", "python3"], "docker-compose.yml", () => {
  test("is valid without settings", ({ sandbox: { services } }) => {
    expect(Object.keys(services).sort()).toEqual([...EVERYTHING].sort());
    const byProfile = (profile: string) =>
      Object.keys(services).filter((name) => services[name]?.profiles?.includes(profile));
    expect(byProfile("sandbox")).toEqual(["sandbox-chains"]);
    expect(byProfile("observability").sort()).toEqual(["grafana", "prometheus"]);
  });

  test("publishes only the proxy's port, to this machine", ({ sandbox: { services } }) => {
    const published = Object.entries(services).flatMap(([name, { ports = [] }]) => ports.map((port) => [name, port]));
    expect(published).toEqual([["proxy", "127.0.0.1:8080:8080/tcp"]]);
    const open = readCompose({ env: { PROXY_PORT: "80" } });
    expect(open.services.proxy?.ports).toEqual([{ published: 80, target: 8080 }]);
  });

  test("gives every service a health check, a restart policy, resource limits and a limited log", ({
    sandbox: { services },
  }) => {
    for (const [name, service] of Object.entries(services)) {
      // It ends when it has created the roles.
      if (name !== "roles") expect(service.healthcheck?.test.length, name).toBeGreaterThan(0);
      expect(service.restart, name).toBe(["sandbox-chains", "roles"].includes(name) ? "no" : "unless-stopped");
      expect(service.mem_limit, name).toMatch(/^\d+[mg]$/);
      expect(service.pids_limit, name).toBeGreaterThan(0);
      expect(service.logging, name).toMatchObject({ options: { "max-size": "10m" } });
    }
  });

  test("gives no service capabilities or new privileges, except what Postgres needs to leave root", ({
    sandbox: { services },
  }) => {
    for (const [name, { cap_drop, cap_add, security_opt }] of Object.entries(services)) {
      expect([cap_drop, security_opt], name).toEqual([["ALL"], ["no-new-privileges:true"]]);
      const added = name === "postgres" ? ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"] : undefined;
      expect(cap_add, name).toEqual(added);
    }
  });

  test("does not start Grafana without a password", async ({ sandbox: { services } }) => {
    const { entrypoint: [shell = "", ...args] = [] } = services.grafana ?? {};
    const start = (password: string) =>
      promisify(execFile)(
        shell,
        args.map((word) => word.replace("/run.sh", "echo started")),
        { env: { PATH: process.env.PATH, GF_SECURITY_ADMIN_PASSWORD: password } },
      );
    expect(services.grafana?.environment?.GF_SECURITY_ADMIN_PASSWORD).toBe("");
    await expect(start("")).rejects.toMatchObject({ code: 1, stderr: "Set GRAFANA_PASSWORD in .env.\n" });
    expect((await start("secret")).stdout).toBe("started\n");
  });

  test("makes the API trust only the proxy's address, which no other container gets", ({
    sandbox: { services, networks },
  }) => {
    const address = services.proxy?.networks?.front?.ipv4_address;
    expect(services.api?.environment?.TRUST_PROXY).toBe(address);
    const [{ subnet, ip_range } = { subnet: "", ip_range: "" }] = networks.front?.ipam?.config ?? [];
    expect([subnet, ip_range, address]).toEqual(["172.30.77.0/24", "172.30.77.128/25", "172.30.77.2"]);
  });

  test("takes passwords from .env, and nothing from the sandbox, for real networks", ({ live: { services } }) => {
    expect(services.postgres?.environment).toMatchObject({ PGDATA: "/var/lib/postgresql/18/live" });
    const { indexer, api, postgres, roles } = services;
    expect(JSON.stringify([indexer, api, postgres, roles])).not.toContain("sandbox");
    // The sandbox clears its database, and must not be able to open this one.
    expect(services["sandbox-chains"]?.environment?.SANDBOX_DATABASE_URL).not.toContain("secret");
  });

  test("gives each container its own secrets and no others", ({ live: { services } }) => {
    const findSecrets = (name: string) =>
      [...new Set(JSON.stringify(services[name]).match(/\w+-secret/g))].map((secret) => secret.replace("-secret", ""));
    expect(Object.fromEntries(EVERYTHING.map((name) => [name, findSecrets(name).sort()]))).toEqual({
      postgres: ["superuser"],
      roles: ["analyst", "api", "indexer", "superuser"],
      valkey: [],
      indexer: ["indexer"],
      api: ["api"],
      proxy: [],
      "sandbox-chains": [],
      prometheus: [],
      grafana: ["grafana"],
    });
  });

  test("gives the indexer the settings of its own file and no others", () => {
    const settings = readFileSync(join(ROOT, ".env.example"), "utf8").matchAll(/^(?:# )?([A-Z]\w*)=/gm);
    const env = Object.fromEntries([...settings].map(([, name = ""]) => [name, "of-another"]));
    const { services } = readCompose({ env: { ...env, INDEXER_ENV_FILE: "ops/sandbox.env", PROXY_PORT: "1" } });
    const { DATABASE_URL, LOG_LEVEL, ...rest } = services.indexer?.environment ?? {};
    expect([DATABASE_URL, LOG_LEVEL]).toEqual([expect.stringContaining(":of-another@"), "of-another"]);
    expect(JSON.stringify(rest)).not.toContain("of-another");
    expect(rest).toMatchObject({ PONDER_RPC_URL_1: "http://sandbox-chains:8545" });
  });

  test("sets no default password for a database of real networks", async () => {
    const env = { INDEXER_ENV_FILE: "test/support/no.env" };
    const { services } = readCompose({ envFile: ".env.example", env });
    expect(services.postgres?.environment).toMatchObject({ POSTGRES_PASSWORD: "" });
    expect(services.roles?.environment).toMatchObject({ INDEXER_PASSWORD: "", API_PASSWORD: "", ANALYST_PASSWORD: "" });
  });

  test("runs shards that differ only in their chains with ops/compose/shards.yml", () => {
    const { services } = readCompose({ files: ["ops/compose/shards.yml"] });
    const shards = Object.entries(services).filter(([name]) => name.startsWith("indexer"));
    expect(shards).toHaveLength(3);
    const names = shards.map(([, { environment }]) => environment?.SHARD);
    expect(services.api?.environment?.INDEX_SCHEMAS).toBe(names.join());
    const chains = shards.flatMap(([, { environment }]) => String(environment?.CHAINS).split(","));
    expect(new Set(chains).size).toBe(chains.length);
    const rest = shards.map(([, { environment, ...service }]) => ({
      ...service,
      environment: { ...environment, SHARD: "", CHAINS: "" },
    }));
    for (const shard of rest) expect(shard).toEqual(rest[0]);
  });

  test("gives only the API another way out with ops/compose/webhooks.yml", () => {
    const { services } = readCompose({ files: ["ops/compose/webhooks.yml"] });
    expect(services.api?.environment?.WEBHOOKS).toBe("on");
    const names = Object.keys(services).filter((name) => "outside" in (services[name]?.networks ?? {}));
    expect(names.sort()).toEqual(["api", "indexer"]);
  });

  test("publishes private ports to this machine only with ops/compose/local-ports.yml", () => {
    const { services } = readCompose({ files: ["ops/compose/local-ports.yml"] });
    for (const [name, { ports = [] }] of Object.entries(services)) {
      if (name !== "proxy") for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
  });

  test.for(["api", "sandbox-chains"])("starts %s as the Dockerfile does", (name, { sandbox }) => {
    const words = sandbox.services[name]?.command?.map((word) => `"${word}"`).join(", ");
    expect(readFileSync(join(ROOT, "Dockerfile"), "utf8")).toContain(`CMD [${words}]`);
  });
});
