import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEmbeddedPostgres } from "../../../local/embedded-postgres.ts";
import { CHECK, OPERATIONS, VAULT } from "../../support/api.ts";
import {
  type Compose,
  type Container,
  createHost,
  type Host,
  readCompose,
  sendRequest,
} from "../../support/compose.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { describeWithPrograms } from "../../support/programs.ts";
import { ROOT } from "../../support/run.ts";
import { waitUntil } from "../../support/setup.ts";

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

describeWithPrograms(["docker-compose", "python3"], "docker-compose.yml", () => {
  let services: Compose["services"];
  let networks: Compose["networks"];
  beforeAll(() => {
    ({ services, networks } = readCompose());
  });

  test("is valid without settings", () => {
    expect(Object.keys(services).sort()).toEqual([...EVERYTHING].sort());
    const byProfile = (profile: string) =>
      Object.keys(services).filter((name) => services[name]?.profiles?.includes(profile));
    expect(byProfile("sandbox")).toEqual(["sandbox-chains"]);
    expect(byProfile("observability").sort()).toEqual(["grafana", "prometheus"]);
  });

  test("publishes only the proxy's port, to this machine", () => {
    const published = Object.entries(services).flatMap(([name, { ports = [] }]) => ports.map((port) => [name, port]));
    expect(published).toEqual([["proxy", "127.0.0.1:8080:8080/tcp"]]);
    const open = readCompose({ env: { PROXY_PORT: "80" } });
    expect(open.services.proxy?.ports).toEqual([{ published: 80, target: 8080 }]);
  });

  test("gives every service a health check, a restart policy, resource limits and a limited log", () => {
    for (const [name, service] of Object.entries(services)) {
      // It ends when it has created the roles.
      if (name !== "roles") expect(service.healthcheck?.test.length, name).toBeGreaterThan(0);
      expect(service.restart, name).toBe(["sandbox-chains", "roles"].includes(name) ? "no" : "unless-stopped");
      expect(service.mem_limit, name).toMatch(/^\d+[mg]$/);
      expect(service.pids_limit, name).toBeGreaterThan(0);
      expect(service.logging, name).toMatchObject({ options: { "max-size": "10m" } });
    }
  });

  test("gives no service capabilities or new privileges, except what Postgres needs to leave root", () => {
    for (const [name, { cap_drop, cap_add, security_opt }] of Object.entries(services)) {
      expect([cap_drop, security_opt], name).toEqual([["ALL"], ["no-new-privileges:true"]]);
      const added = name === "postgres" ? ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"] : undefined;
      expect(cap_add, name).toEqual(added);
    }
  });

  test("does not start Grafana without a password", async () => {
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

  test("separates the database from the proxy, and API and database from the internet", () => {
    const networksOf = (name: string) => Object.keys(services[name]?.networks ?? {}).sort();
    expect(networks).toMatchObject({ data: { internal: true }, front: { internal: true } });
    expect(
      Object.fromEntries(["proxy", "api", "postgres", "valkey", "indexer"].map((name) => [name, networksOf(name)])),
    ).toEqual({
      proxy: ["edge", "front"],
      api: ["data", "front"],
      postgres: ["data"],
      valkey: ["data"],
      indexer: ["data", "outside"],
    });
  });

  test("makes the API trust only the proxy's address, which no other container gets", () => {
    const address = services.proxy?.networks?.front?.ipv4_address;
    expect(services.api?.environment?.TRUST_PROXY).toBe(address);
    const [{ subnet, ip_range } = { subnet: "", ip_range: "" }] = networks.front?.ipam?.config ?? [];
    expect([subnet, ip_range, address]).toEqual(["172.30.77.0/24", "172.30.77.128/25", "172.30.77.2"]);
  });

  test("takes passwords from .env, and nothing from the sandbox, for real networks", () => {
    const { services } = readCompose({ envFile: ".env.example", env: LIVE });
    expect(services.postgres?.environment).toMatchObject({ PGDATA: "/var/lib/postgresql/18/live" });
    const { indexer, api, postgres, roles } = services;
    expect(JSON.stringify([indexer, api, postgres, roles])).not.toContain("sandbox");
    // The sandbox clears its database, and must not be able to open this one.
    expect(services["sandbox-chains"]?.environment?.SANDBOX_DATABASE_URL).not.toContain("secret");
  });

  test("gives each container its own secrets and no others", () => {
    const { services } = readCompose({ envFile: ".env.example", env: LIVE });
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

  test("creates no roles with the sandbox's passwords in a database of real networks", async () => {
    const compose = readCompose({ env: { POSTGRES_PASSWORD: "superuser-secret" } });
    const alone = await createHost({ compose, databaseUrl: (url) => url });
    const roles = await alone.start("roles");
    expect(await roles.exited).toBe(1);
    expect(roles.output()).toContain("API_PASSWORD is the sandbox's, which is public");
    await alone.stop();
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

  test("publishes private ports to this machine only with ops/compose/local-ports.yml", () => {
    const { services } = readCompose({ files: ["ops/compose/local-ports.yml"] });
    for (const [name, { ports = [] }] of Object.entries(services)) {
      if (name !== "proxy") for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
  });

  test("builds the targets of the Dockerfile, and starts them as the Dockerfile does", () => {
    const dockerfile = readFileSync(join(ROOT, "Dockerfile"), "utf8");
    for (const { build } of Object.values(services)) {
      if (build) expect(dockerfile).toMatch(new RegExp(`^FROM base AS ${build.target}$`, "m"));
    }
    for (const name of ["api", "sandbox-chains"]) {
      const words = services[name]?.command?.map((word) => `"${word}"`).join(", ");
      expect(dockerfile).toContain(`CMD [${words}]`);
    }
  });
});

const readIndex = async (databaseUrl: string): Promise<string> => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const index = await readServedSchema(client);
  await client.end();
  return index;
};

describeWithPrograms(
  ["docker-compose", "python3", "nginx", "redis-server"],
  "the sandbox of docker-compose.yml, as processes",
  () => {
    const APIS = 2;
    let folder: string;
    let postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>;
    let host: Host;
    const containers = new Map<string, Container>();

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "delegation-registry-compose-postgres-"));
      await chmod(folder, 0o755);
      postgres = await startEmbeddedPostgres({ directory: join(folder, "postgres"), disposable: true });
      const { services } = readCompose();
      const { POSTGRES_USER: user, POSTGRES_PASSWORD: password } = services.postgres?.environment ?? {};
      const client = new pg.Client(postgres.url);
      await client.connect();
      // Like the Postgres image.
      await client.query(`create role ${user} superuser login password '${password}'`);
      await client.query(`create database ${user} owner ${user}`);
      await client.end();

      const { host: address } = new URL(postgres.url);
      host = await createHost({ compose: readCompose(), databaseUrl: (url) => url.replace("postgres:5432", address) });
      const roles = await host.start("roles");
      expect(await roles.exited, roles.output()).toBe(0);
      // All at once, like docker compose.
      for (const name of ["valkey", "sandbox-chains", "indexer", "proxy"]) containers.set(name, await host.start(name));
      for (let number = 1; number <= APIS; number++) containers.set(`api ${number}`, await host.start("api"));
    });
    afterAll(async () => {
      await host?.stop();
      await postgres?.stop();
      await rm(folder, { recursive: true, force: true });
    });

    const outputs = () =>
      [...containers].map(([name, { output }]) => `--- ${name}\n${output().slice(-3000)}`).join("\n");

    test("answers every operation through the proxy without settings", async () => {
      // Enough requests to reach every API process.
      const areReady = async () => {
        const answers = await Promise.all(Array.from({ length: 20 }, () => sendRequest(host.url, "/ready")));
        return answers.every(({ status }) => status === 200);
      };
      await waitUntil("the proxy answers", () => areReady().catch(() => false), 180).catch((error) => {
        throw new Error(outputs(), { cause: error });
      });
      const check = await sendRequest(host.url, CHECK, { from: "127.0.9.1" });
      expect([check.status, check.body]).toEqual([200, "true"]);
      for (const path of [...OPERATIONS.v1, ...OPERATIONS.v2]) {
        expect(await sendRequest(host.url, path, { from: "127.0.9.2" }), path).toMatchObject({ status: 200 });
      }
    });

    test("passes its own health checks", async () => {
      for (const [name, container] of containers) {
        // The health checks of Valkey and nginx need their images.
        if (name === "valkey" || name === "proxy") continue;
        await waitUntil(`${name} is healthy`, container.isHealthy, 30);
      }
    });

    test("connects API and indexer as roles that cannot do more than their work", async () => {
      const { services } = readCompose();
      const { host: address } = new URL(postgres.url);
      const index = await readIndex(
        String(services.roles?.environment?.DATABASE_URL).replace("postgres:5432", address),
      );
      const denied = {
        api: [
          `select from ${index}.delegation_v2`,
          "select from ponder_sync.blocks",
          "delete from registry.delegation_v2",
        ],
        indexer: ["select from service.api_key", "delete from service.session"],
      };
      for (const [name, statements] of Object.entries(denied)) {
        const url = String(services[name]?.environment?.DATABASE_URL).replace("postgres:5432", address);
        const client = new pg.Client(url);
        await client.connect();
        const { rows } = await client.query(
          "select rolsuper or rolcreaterole or rolcreatedb or rolreplication as privileged from pg_roles where rolname = current_user",
        );
        expect(rows, name).toEqual([{ privileged: false }]);
        for (const statement of [
          ...statements,
          "select pg_read_file('/etc/passwd')",
          "copy (select 1) to program 'id'",
        ]) {
          await expect(client.query(statement), statement).rejects.toThrow("permission denied");
        }
        await client.end();
      }
    });

    test("limits each client by its address across all API containers", async () => {
      const [one, other] = ["127.0.9.3", "127.0.9.4"];
      const statuses: (number | undefined)[] = [];
      // The API ignores the client's own header.
      for (let index = 0; index < 26; index++) {
        const { status } = await sendRequest(host.url, CHECK, {
          from: one,
          headers: { "X-Forwarded-For": `203.0.113.${index}` },
        });
        statuses.push(status);
      }
      expect(statuses).toEqual([...Array(25).fill(200), 429]);
      expect(await sendRequest(host.url, CHECK, { from: other })).toMatchObject({ status: 200 });
    });

    test("creates API keys as docs/operating.md says", async () => {
      const { host: address } = new URL(postgres.url);
      const { services } = readCompose();
      const databaseUrl = String(services.api?.environment?.DATABASE_URL).replace("postgres:5432", address);
      const { stdout } = await promisify(execFile)("npm", ["run", "-s", "keys", "--", "create", "--name", "mine"], {
        cwd: ROOT,
        env: { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: databaseUrl },
      });
      const answer = await sendRequest(host.url, `/registry/v2/${VAULT}`, {
        from: "127.0.9.3",
        headers: { "X-API-KEY": stdout.trim() },
      });
      expect(answer).toMatchObject({ status: 200 });
      expect(answer.headers.ratelimit).toBeUndefined();
    });

    test("returns a problem document while no API is up, and answers when one is up again", async () => {
      const apis = [...containers].filter(([name]) => name.startsWith("api"));
      expect(await Promise.all(apis.map(([, { stop }]) => stop()))).toEqual(apis.map(() => 0));
      await waitUntil("no API is reachable", async () => (await sendRequest(host.url, "/health")).status === 503, 10);
      const { headers, body } = await sendRequest(host.url, CHECK, { from: "127.0.9.6" });
      expect(headers).toMatchObject({
        "content-type": "application/problem+json",
        "retry-after": "5",
        "access-control-allow-origin": "*",
      });
      expect(JSON.parse(body)).toMatchObject({ status: 503, type: "/docs#problem-overloaded" });

      containers.set("api 1", await host.start("api"));
      await waitUntil("it answers", async () => (await sendRequest(host.url, "/ready")).status === 200, 30);
      expect(await sendRequest(host.url, CHECK, { from: "127.0.9.6" })).toMatchObject({ status: 200, body: "true" });
    });

    test("indexes new chains after a restart, without data of the old ones", async () => {
      await Promise.all(["indexer", "sandbox-chains"].map((name) => containers.get(name)?.stop()));
      for (const name of ["indexer", "sandbox-chains"]) containers.set(name, await host.start(name));
      const readStatus = async () => {
        const { body } = await sendRequest(host.url, "/status");
        return JSON.parse(body) as { missingShards: string[]; chains: { ready: boolean }[] };
      };
      await waitUntil("the old index is gone", async () => (await readStatus()).missingShards.includes("registry"));
      const isIndexed = async () => {
        const { chains } = await readStatus();
        return chains.length === 2 && chains.every(({ ready }) => ready);
      };
      await waitUntil("the new chains are indexed", isIndexed, 180).catch((error) => {
        throw new Error(outputs(), { cause: error });
      });
      expect(await sendRequest(host.url, CHECK, { from: "127.0.9.7" })).toMatchObject({ status: 200, body: "true" });
    });
  },
);

describeWithPrograms(["docker-compose", "python3"], "docker-compose.yml without an RPC", () => {
  test("ends the sandbox's indexer with the settings that are missing", async () => {
    const compose = readCompose();
    const alone = await createHost({ compose, databaseUrl: (url) => url });
    const indexer = await alone.start("indexer");
    await waitUntil(
      "the indexer logs the missing settings",
      async () => indexer.output().includes("set PONDER_RPC_URL_1, PONDER_RPC_URL_137"),
      60,
    );
    await alone.stop();
  });

  test("ends the indexer with the settings that are missing in .env.indexer", async () => {
    const compose = readCompose({ envFile: ".env.example", env: LIVE });
    const alone = await createHost({ compose, databaseUrl: (url) => url });
    const indexer = await alone.start("indexer");
    expect(await indexer.exited).toBe(1);
    expect(indexer.output()).toContain("No chain to index: set PONDER_RPC_URL_<chainId>");
    await alone.stop();
  });
});
