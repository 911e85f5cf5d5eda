import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { type Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { findFreePort } from "../../process/ports.ts";
import { startNameServer } from "./dns.ts";
import { findProgram } from "./programs.ts";
import { redisServer } from "./redis.ts";
import { captureOutput, ROOT } from "./run.ts";

// Runs the services of docker-compose.yml without Docker, as local processes.

type Service = {
  image: string;
  build?: { target: string };
  entrypoint?: string[];
  command?: string[];
  environment?: Record<string, string | number | null>;
  healthcheck?: { test: string[] };
  restart?: string;
  stop_signal?: NodeJS.Signals;
  cap_drop?: string[];
  cap_add?: string[];
  security_opt?: string[];
  mem_limit?: string;
  pids_limit?: number;
  ports?: unknown[];
  profiles?: string[];
  networks?: Record<string, { ipv4_address?: string } | null>;
  logging?: unknown;
};

export type Compose = {
  services: Record<string, Service>;
  networks: Record<string, { internal?: boolean; ipam?: { config: { subnet: string; ip_range: string }[] } } | null>;
  volumes: Record<string, unknown>;
};

type ComposeOptions = {
  /** Files that override docker-compose.yml. */
  files?: readonly string[];
  /** Replaces .env. */
  envFile?: string;
  env?: Record<string, string>;
};

/** Reads the configuration with docker-compose, without the .env of this checkout. */
export const readCompose = ({
  files = [],
  envFile = "test/support/no.env",
  env = {},
}: ComposeOptions = {}): Compose => {
  const yaml = execFileSync(
    findProgram("docker-compose") ?? "docker-compose",
    ["--env-file", envFile, ...["docker-compose.yml", ...files].flatMap((file) => ["-f", file]), "config"],
    { cwd: ROOT, env: { PATH: process.env.PATH, ...env }, stdio: ["ignore", "pipe", "pipe"] },
  );
  // This docker-compose prints only YAML. It is a Python program, so Python's YAML module is available.
  const json = execFileSync(
    "python3",
    ["-c", "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"],
    {
      input: yaml,
      encoding: "utf8",
    },
  );
  return JSON.parse(json.replaceAll("$$", "$"));
};

/** A process that replaces a container. */
export type Container = {
  address: string;
  /** Base URL, if it is an API. */
  url: string;
  /** Returns its output so far. */
  output: () => string;
  exited: Promise<number | null>;
  isHealthy: () => Promise<boolean>;
  /** Sends the service's stop signal and waits for the exit code. */
  stop: () => Promise<number | null>;
};

type HostOptions = {
  compose: Compose;
  /** Replaces the database URL of the configuration. */
  databaseUrl: (inFile: string) => string;
  /** Addresses that the name server returns for the API, but that no container has. */
  ghosts?: readonly string[];
  /** The file trusted.conf of the proxy. */
  trustedConf?: string;
};

/** First version that resolves names again after its start. */
const RESOLVING_NGINX = [1, 27, 3];

const canResolve = (nginx: string): boolean => {
  const { stderr } = spawnSync(nginx, ["-v"], { encoding: "utf8" });
  const version = (/nginx\/([\d.]+)/.exec(stderr)?.[1] ?? "0").split(".").map(Number);
  const place = RESOLVING_NGINX.findIndex((number, index) => number !== version[index]);
  return place === -1 || (version[place] ?? 0) > (RESOLVING_NGINX[place] ?? 0);
};

const CONTAINER_PORTS = ["6379", "8079", "8080", "8545", "8546", "9464", "42069"];

/**
 * Creates a host that runs services with the commands, arguments and environment of the configuration. Only addresses
 * and ports differ: each container gets its own address in 127.0.0.0/8, all of which is local on Linux, and free
 * ports.
 */
export const createHost = async ({ compose, databaseUrl, ghosts = [], trustedConf = "" }: HostOptions) => {
  const services = Object.keys(compose.services);
  const folder = await mkdtemp(join(tmpdir(), "delegation-registry-compose-"));
  // Postgres and nginx may run as another user.
  await chmod(folder, 0o755);
  // Differs from the network of another test's host.
  const network = `127.${1 + (process.pid % 250)}.${Math.floor(Math.random() * 256)}`;
  const ports = new Map<string, number>();
  for (const port of CONTAINER_PORTS) ports.set(port, await findFreePort());
  // The second chain's port is the one after the first's.
  ports.set("8546", (ports.get("8545") ?? 0) + 1);

  /** Addresses of running containers, by service name. */
  const names = new Map<string, Set<string>>(services.map((name) => [name, new Set()]));
  const nameServer = await startNameServer((name) => [...(names.get(name) ?? []), ...(name === "api" ? ghosts : [])]);
  /** As with Docker, a stopped container's address is reused. */
  const apiAddresses = [101, 102, 103, 104].map((last) => `${network}.${last}`);
  const containers = new Set<Container>();

  /** Address of a service with a single container. */
  const addressOf = (name: string) => `${network}.${1 + services.indexOf(name)}`;
  const withPorts = (text: string) =>
    text.replace(new RegExp(`\\b(${CONTAINER_PORTS.join("|")})\\b`, "g"), (port) => String(ports.get(port)));

  /** Replaces addresses and ports in a value of the configuration. */
  const adapt = (text: string, ownAddress: string): string => {
    if (text.startsWith("postgres://")) return databaseUrl(text);
    // Connections within 127.0.0.0/8 come from 127.0.0.1.
    if (text === compose.services.proxy?.networks?.front?.ipv4_address) return "127.0.0.1";
    const named = new RegExp(`\\b(${services.join("|")})(?=:\\d)`, "g");
    return withPorts(text.replace(named, (name) => addressOf(name)).replace("0.0.0.0", ownAddress));
  };

  /** Writes the proxy's configuration, with other addresses and writable paths. */
  const writeProxyConfig = async (nginx: string, ownAddress: string): Promise<string> => {
    const config = await readFile(join(ROOT, "ops/proxy/nginx.conf"), "utf8");
    const file = join(folder, "nginx.conf");
    await writeFile(join(folder, "trusted.conf"), trustedConf);
    const adapted = config
      .replace("listen 8080", `listen ${ownAddress}:8080`)
      .replaceAll("/tmp/", `${folder}/`)
      .replace("/etc/nginx/proxy/", `${folder}/`)
      .replace("resolver 127.0.0.11 ", `resolver 127.0.0.1:${nameServer.port} `);
    // An older nginx gets all addresses that containers can have, and tries them.
    const servers = [...apiAddresses, ...ghosts].map((address) => `server ${address}:8080 max_fails=0;`).join(" ");
    const resolved = canResolve(nginx)
      ? adapted
      : adapted.replace(/^\s*resolver .*$/m, "").replace(/^\s*server api:8080 resolve .*$/m, servers);
    await writeFile(file, withPorts(resolved));
    return file;
  };

  const launch = async (
    [program, ...args]: string[],
    address: string,
    env: NodeJS.ProcessEnv,
  ): Promise<ChildProcess> => {
    const options = { cwd: ROOT, env, stdio: "pipe" } as const;
    switch (program) {
      case "node":
        return spawn(process.execPath, args, options);
      case "nginx": {
        const nginx = findProgram("nginx") ?? program;
        const config = await writeProxyConfig(nginx, address);
        return spawn(
          nginx,
          args.map((word) => (basename(word) === "nginx.conf" ? config : word)),
          options,
        );
      }
      case "valkey-server": {
        const place = ["--bind", address, "--port", String(ports.get("6379")), "--dir", folder];
        return spawn(redisServer ?? program, [...args, ...place], options);
      }
      default:
        throw new Error(`Cannot run ${program} outside a container.`);
    }
  };

  /** Starts a container of a service. The API can have several, as with --scale. */
  const start = async (name: string): Promise<Container> => {
    const service = compose.services[name];
    if (!service) throw new Error(`There is no service "${name}".`);
    const free = apiAddresses.find((address) => !names.get("api")?.has(address));
    const address = name === "api" ? free : addressOf(name);
    if (address === undefined) throw new Error("All addresses of API containers are in use.");
    names.get(name)?.add(address);
    const environment = Object.entries(service.environment ?? {}).flatMap(([variable, value]) =>
      value === null ? [] : [[variable, adapt(String(value), address)]],
    );
    const env = { PATH: process.env.PATH, HOME: folder, ...Object.fromEntries(environment) };
    const child = await launch(service.entrypoint ?? service.command ?? [], address, env);
    const { output, printed } = captureOutput();
    child.stdout?.pipe(output);
    child.stderr?.pipe(output);
    const endNow = () => child.kill("SIGKILL");
    process.once("exit", endNow);
    const exited = once(child, "exit").then(([code]: (number | null)[]) => {
      process.off("exit", endNow);
      names.get(name)?.delete(address);
      return code ?? null;
    });

    const container: Container = {
      address,
      url: `http://${address}:${ports.get("8080")}`,
      output: printed,
      exited,
      isHealthy: async () => {
        const [, program = "", ...args] = (service.healthcheck?.test ?? []).map((word) =>
          adapt(word, address).replace("127.0.0.1", name === "proxy" ? "127.0.0.1" : address),
        );
        return promisify(execFile)(program, args, { cwd: ROOT, env }).then(
          () => true,
          () => false,
        );
      },
      stop: () => {
        if (child.exitCode === null && child.signalCode === null) child.kill(service.stop_signal ?? "SIGTERM");
        return exited;
      },
    };
    containers.add(container);
    return container;
  };

  return {
    start,
    /** Public URL of the proxy. */
    url: `http://${addressOf("proxy")}:${ports.get("8080")}`,
    /** Stops all containers, newest first. */
    stop: async () => {
      for (const { stop } of [...containers].reverse()) await stop();
      await nameServer.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
};

export type Host = Awaited<ReturnType<typeof createHost>>;

type AskOptions = { from?: string; headers?: Record<string, string>; agent?: Agent | false };

/** Sends a GET request, optionally from a given local address. */
export const sendRequest = (url: string, path: string, { from, headers = {}, agent = false }: AskOptions = {}) =>
  new Promise<{ status: number | undefined; headers: NodeJS.Dict<string | string[]>; body: string }>(
    (resolve, reject) => {
      const options = { headers, agent, ...(from && { localAddress: from }) };
      const sent = request(`${url}${path}`, options, (answer) => {
        text(answer).then((body) => resolve({ status: answer.statusCode, headers: answer.headers, body }), reject);
      });
      sent.on("error", reject);
      sent.end();
    },
  );
