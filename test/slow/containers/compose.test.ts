import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEmbeddedPostgres } from "../../../stack/embedded-postgres.ts";
import { CHECK, OPERATIONS, VAULT } from "../../support/api.ts";
import { ask, type Compose, type Container, createHost, type Host, ROOT, readCompose } from "../../support/compose.ts";
import { describeWith } from "../../support/programs.ts";
import { until } from "../../support/setup.ts";

const EVERYTHING = ["postgres", "valkey", "indexer", "api", "proxy", "sandbox-chains", "prometheus", "grafana"];

describeWith(["docker-compose", "python3"], "docker-compose.yml", () => {
  let services: Compose["services"];
  let networks: Compose["networks"];
  beforeAll(() => {
    ({ services, networks } = readCompose());
  });

  test("is valid without a single setting", () => {
    expect(Object.keys(services).sort()).toEqual([...EVERYTHING].sort());
    const byProfile = (profile: string) =>
      Object.keys(services).filter((name) => services[name]?.profiles?.includes(profile));
    expect(byProfile("sandbox")).toEqual(["sandbox-chains"]);
    expect(byProfile("observability").sort()).toEqual(["grafana", "prometheus"]);
  });

  test("publishes the proxy's port only", () => {
    const published = Object.entries(services).flatMap(([name, { ports = [] }]) => (ports.length > 0 ? name : []));
    expect(published).toEqual(["proxy"]);
  });

  test("gives every service a health check, a restart policy, limits, and a log of limited size", () => {
    for (const [name, service] of Object.entries(services)) {
      expect(service.healthcheck?.test, name).not.toHaveLength(0);
      expect(service.restart, name).toBe(name === "sandbox-chains" ? "no" : "unless-stopped");
      expect(service.mem_limit, name).toMatch(/^\d+[mg]$/);
      expect(service.pids_limit, name).toBeGreaterThan(0);
      expect(service.logging, name).toMatchObject({ options: { "max-size": "10m" } });
    }
  });

  test("keeps the database from the proxy and from the outside", () => {
    const networksOf = (name: string) => Object.keys(services[name]?.networks ?? {}).sort();
    expect(networks.data).toMatchObject({ internal: true });
    expect(
      Object.fromEntries(["proxy", "api", "postgres", "valkey", "indexer"].map((name) => [name, networksOf(name)])),
    ).toEqual({
      proxy: ["front"],
      api: ["data", "front"],
      postgres: ["data"],
      valkey: ["data"],
      indexer: ["data", "outside"],
    });
  });

  test("makes the API trust only the proxy's address, which no other container can get", () => {
    const address = services.proxy?.networks?.front?.ipv4_address;
    expect(services.api?.environment?.TRUST_PROXY).toBe(address);
    const [{ subnet, ip_range } = { subnet: "", ip_range: "" }] = networks.front?.ipam?.config ?? [];
    expect([subnet, ip_range, address]).toEqual(["172.30.77.0/24", "172.30.77.128/25", "172.30.77.2"]);
  });

  test("takes RPCs and password from .env for real networks, and nothing from the sandbox", () => {
    const env = { INDEXER_ENV_FILE: ".env.example", POSTGRES_PASSWORD: "secret" };
    const { services } = readCompose({ envFile: ".env.example", env });
    const url = "postgres://registry:secret@postgres:5432/registry";
    expect(services.postgres?.environment).toMatchObject({
      POSTGRES_PASSWORD: "secret",
      PGDATA: "/var/lib/postgresql/18/live",
    });
    expect(services.api?.environment).toMatchObject({ DATABASE_URL: url });
    expect(services.indexer?.environment).toMatchObject({ DATABASE_URL: url, PONDER_RPC_URL_1: "" });
    expect(JSON.stringify([services.indexer, services.api, services.postgres])).not.toContain("sandbox");
    // The sandbox clears its database: it must not be able to open this one.
    expect(services["sandbox-chains"]?.environment?.SANDBOX_DATABASE_URL).not.toContain("secret");
  });

  test("sets no default password for a database of real networks", () => {
    const env = { INDEXER_ENV_FILE: ".env.example" };
    const { services } = readCompose({ envFile: ".env.example", env });
    expect(services.postgres?.environment).toMatchObject({ POSTGRES_PASSWORD: "" });
  });

  test("runs several shards with ops/compose/shards.yml, which differ only in their chains", () => {
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

describeWith(
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
      // As the image of Postgres does.
      await client.query(`create role ${user} superuser login password '${password}'`);
      await client.query(`create database ${user} owner ${user}`);
      await client.end();

      const { host: address } = new URL(postgres.url);
      host = await createHost({ compose: readCompose(), databaseUrl: (url) => url.replace("postgres:5432", address) });
      // All at once, as docker compose does.
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

    test("answers every operation through the proxy, without a single setting", async () => {
      // Every API process has to be ready.
      const areReady = async () => {
        const answers = await Promise.all(Array.from({ length: 20 }, () => ask(host.url, "/ready")));
        return answers.every(({ status }) => status === 200);
      };
      await until("the proxy answers", () => areReady().catch(() => false), 180).catch((error) => {
        throw new Error(outputs(), { cause: error });
      });
      const check = await ask(host.url, CHECK, { from: "127.0.9.1" });
      expect([check.status, check.body]).toEqual([200, "true"]);
      for (const path of [...OPERATIONS.v1, ...OPERATIONS.v2]) {
        expect(await ask(host.url, path, { from: "127.0.9.2" }), path).toMatchObject({ status: 200 });
      }
    });

    test("is healthy, by the health checks of the file", async () => {
      for (const [name, container] of containers) {
        // Those of Valkey and nginx need their images.
        if (name === "valkey" || name === "proxy") continue;
        await until(`${name} is healthy`, container.isHealthy, 30);
      }
    });

    test("limits each client by its own address, whichever API container it meets", async () => {
      const [one, other] = ["127.0.9.3", "127.0.9.4"];
      const statuses: (number | undefined)[] = [];
      // The API does not believe the client's own header.
      for (let index = 0; index < 26; index++) {
        const { status } = await ask(host.url, CHECK, {
          from: one,
          headers: { "X-Forwarded-For": `203.0.113.${index}` },
        });
        statuses.push(status);
      }
      expect(statuses).toEqual([...Array(25).fill(200), 429]);
      expect(await ask(host.url, CHECK, { from: other })).toMatchObject({ status: 200 });
    });

    test("makes API keys as operating.md says", async () => {
      const { host: address } = new URL(postgres.url);
      const { services } = readCompose();
      const databaseUrl = String(services.api?.environment?.DATABASE_URL).replace("postgres:5432", address);
      const { stdout } = await promisify(execFile)("npm", ["run", "-s", "keys", "--", "create", "--name", "mine"], {
        cwd: ROOT,
        env: { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: databaseUrl },
      });
      const answer = await ask(host.url, `/registry/v2/${VAULT}`, {
        from: "127.0.9.3",
        headers: { "X-API-KEY": stdout.trim() },
      });
      expect(answer).toMatchObject({ status: 200 });
      expect(answer.headers.ratelimit).toBeUndefined();
    });

    test("passes on the API's own 431", async () => {
      const long = await ask(host.url, `/registry/v2/${VAULT}?x=${"x".repeat(9000)}`, { from: "127.0.9.5" });
      expect([long.status, long.headers["content-type"]]).toEqual([431, "application/problem+json"]);
    });

    test("answers with a problem document when no API can be reached, and answers again when one can", async () => {
      const apis = [...containers].filter(([name]) => name.startsWith("api"));
      expect(await Promise.all(apis.map(([, { stop }]) => stop()))).toEqual(apis.map(() => 0));
      await until("no API is reachable", async () => (await ask(host.url, "/health")).status === 503, 10);
      const { headers, body } = await ask(host.url, CHECK, { from: "127.0.9.6" });
      expect(headers).toMatchObject({
        "content-type": "application/problem+json",
        "retry-after": "5",
        "access-control-allow-origin": "*",
      });
      expect(JSON.parse(body)).toMatchObject({ status: 503, type: "/docs#problem-overloaded" });

      containers.set("api 1", await host.start("api"));
      await until("it answers", async () => (await ask(host.url, "/ready")).status === 200, 30);
      expect(await ask(host.url, CHECK, { from: "127.0.9.6" })).toMatchObject({ status: 200, body: "true" });
    });

    test("starts over on new chains, with nothing of the old ones left", async () => {
      await Promise.all(["indexer", "sandbox-chains"].map((name) => containers.get(name)?.stop()));
      for (const name of ["indexer", "sandbox-chains"]) containers.set(name, await host.start(name));
      const readStatus = async () => {
        const { body } = await ask(host.url, "/status");
        return JSON.parse(body) as { missingShards: string[]; chains: { ready: boolean }[] };
      };
      await until("the old index is gone", async () => (await readStatus()).missingShards.includes("registry"));
      const isIndexed = async () => {
        const { chains } = await readStatus();
        return chains.length === 2 && chains.every(({ ready }) => ready);
      };
      await until("the new chains are indexed", isIndexed, 180).catch((error) => {
        throw new Error(outputs(), { cause: error });
      });
      expect(await ask(host.url, CHECK, { from: "127.0.9.7" })).toMatchObject({ status: 200, body: "true" });
    });
  },
);

describeWith(["docker-compose", "python3"], "docker-compose.yml without an RPC", () => {
  test("ends the sandbox's indexer with the settings to make", async () => {
    const compose = readCompose();
    const alone = await createHost({ compose, databaseUrl: (url) => url });
    const indexer = await alone.start("indexer");
    await until("it says so", async () => indexer.output().includes("set PONDER_RPC_URL_1, PONDER_RPC_URL_137"), 60);
    await alone.stop();
  });

  test("ends the indexer with the settings to make in .env", async () => {
    const env = { INDEXER_ENV_FILE: ".env.example", POSTGRES_PASSWORD: "secret" };
    const alone = await createHost({
      compose: readCompose({ envFile: ".env.example", env }),
      databaseUrl: (url) => url,
    });
    const indexer = await alone.start("indexer");
    expect(await indexer.exited).toBe(1);
    expect(indexer.output()).toContain("No chain to index: set PONDER_RPC_URL_<chainId>");
    await alone.stop();
  });
});
