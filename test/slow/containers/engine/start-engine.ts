import { execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readlinkSync } from "node:fs";
import { cp, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { describe } from "vitest";
import { captureOutput, findProgram, ROOT } from "../../../support/run.ts";
import { waitUntil } from "../../../support/setup.ts";
import { readCompose, selectFiles } from "../compose.ts";

const PROGRAMS = ["dockerd", "docker", "docker-compose", "python3", "iptables", "ip", "mmdebstrap", "setpriv"];
/** Processes, mounts, networks and firewall rules of their own. They end with their first process. */
const NAMESPACES = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

const findMissing = (): string => {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "root on Linux";
  const programs = PROGRAMS.filter((name) => findProgram(name) === null);
  if (programs.length > 0) return programs.join(" and ");
  return spawnSync("unshare", [...NAMESPACES, "true"]).status === 0 ? "" : "the right to create namespaces";
};

/** Describes tests that need a Docker engine. Where none can run they are skipped, and the title says why. */
export const describeWithEngine = (title: string, tests: () => void) => {
  const missing = findMissing();
  describe.skipIf(missing !== "")(missing === "" ? title : `${title} [LEFT OUT: needs ${missing}]`, tests);
};

/** Debian's first release with an nginx that resolves the names of an upstream again. */
const DEBIAN = "forky";
const PACKAGES = "base-files,bash,coreutils,dash,grep,iproute2,nginx,postgresql-18,sed,util-linux,valkey-server,wget";

const NODE = /^FROM node:(\d+)-slim/m.exec(readFileSync(join(ROOT, "Dockerfile"), "utf8"))?.[1];

const run = promisify(execFile);
const MAX_OUTPUT = 100_000_000;

/** Writes the packages as the files of an image. They are not configured: nothing of them runs on this machine. */
const writeDebian = (file: string) =>
  run("mmdebstrap", [
    "--variant=extract",
    `--include=${PACKAGES}`,
    // The lists of a release to come are valid for a week only.
    '--aptopt=Acquire::Check-Valid-Until "false"',
    DEBIAN,
    file,
    `deb http://deb.debian.org/debian ${DEBIAN} main`,
  ]);

/** Installs the Node.js of the Dockerfile, and its npm. */
const installNode = async (folder: string) => {
  const name = `node-linux-${process.arch}`;
  await run("npm", ["install", "--prefix", folder, "--no-audit", "--ignore-scripts", `${name}@${NODE}`, "npm@11"]);
  await rename(join(folder, "node_modules", name), join(folder, "node_modules/node-linux"));
};

/** Creates a server that passes requests on to npm's registry: the engine has no other way out. */
const createRegistry = () =>
  createServer(async ({ url = "", method }, response) => {
    const registry = process.env.npm_config_registry ?? "https://registry.npmjs.org/";
    const answer = await fetch(new URL(url.slice(1), registry), { method }).catch(() => null);
    response.statusCode = answer?.status ?? 502;
    if (answer?.body) Readable.fromWeb(answer.body).pipe(response);
    else response.end();
  });

type ComposeOptions = { files?: readonly string[]; env?: Record<string, string> };

/**
 * Starts a Docker engine with stand-ins for the images that Dockerfile and docker-compose.yml name. It shares no
 * processes, mounts, networks, ports or firewall rules with another engine on this machine, and ends with this process.
 */
export const startEngine = async () => {
  const folder = await mkdtemp(join(tmpdir(), "delegation-registry-engine-"));
  // A part of 198.18.0.0/15, which is for tests: RFC 2544.
  const number = process.pid % 256;
  const [host, address] = [`198.18.${number}.1`, `198.18.${number}.2`];
  const env = { PATH: process.env.PATH, HOME: folder, DOCKER_HOST: `unix://${folder}/socket`, DOCKER_BUILDKIT: "0" };
  const flags = ["data-root", "exec-root", "pidfile"].map((name) => `--${name} ${folder}/${name}`).join(" ");
  const script = `
    until ip address add ${address}/24 dev engine 2>/dev/null; do sleep 0.1; done
    ip link set engine up
    ip link set lo up
    exec dockerd ${flags} --host ${env.DOCKER_HOST}`;
  const engine = spawn("setpriv", ["--pdeathsig", "KILL", "unshare", ...NAMESPACES, "sh", "-c", script]);
  const exited = once(engine, "exit");
  const { output, printed } = captureOutput();
  engine.stdout.pipe(output);
  engine.stderr.pipe(output);
  const registry = createRegistry();

  const stop = async () => {
    // The engine's end would leave the containers' empty control groups behind.
    const containers = await docker("ps", "--all", "--quiet").catch(() => "");
    if (containers) await docker("rm", "--force", ...containers.split("\n")).catch(() => {});
    engine.kill("SIGKILL");
    await exited;
    registry.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };

  /** Runs docker, and returns what it prints. */
  const docker = async (...args: string[]) => (await run("docker", args, { env, maxBuffer: MAX_OUTPUT })).stdout.trim();

  /** Runs docker-compose with the sandbox's profile. The proxy's port is published to the tests. */
  const compose = async (args: readonly string[], { files, env: settings }: ComposeOptions = {}) =>
    run("docker-compose", [...selectFiles({ files }), "--profile", "sandbox", ...args], {
      cwd: ROOT,
      env: { ...env, COMPOSE_PROJECT_NAME: "registry", PROXY_PORT: `${address}:8080`, ...settings },
      maxBuffer: MAX_OUTPUT,
    });

  const connectEngine = async () => {
    const readNetwork = (pid: number | "self" = "self") => readlinkSync(`/proc/${pid}/ns/net`);
    await waitUntil("it has its own network", () => readNetwork(engine.pid) !== readNetwork());
    const link = `registry${number}`;
    for (const command of [
      `link add ${link} type veth peer name engine netns ${engine.pid}`,
      `address add ${host}/24 dev ${link}`,
      `link set ${link} up`,
      // The clients' addresses.
      `route add local 198.18.${number}.128/25 dev ${link}`,
    ]) {
      execFileSync("ip", command.split(" "));
    }
    const isUp = () => docker("version").catch(() => engine.exitCode);
    if ((await waitUntil("the engine is up", isUp, 60)) === engine.exitCode) throw new Error(printed());
  };

  const createImages = async () => {
    const base = join(folder, "base");
    await cp(import.meta.dirname, base, { recursive: true });
    await writeFile(join(base, "npmrc"), `registry=${registryUrl}\n`);
    await Promise.all([writeDebian(join(folder, "debian.tar")), installNode(base)]);
    await docker("import", join(folder, "debian.tar"), "debian");
    const { services } = readCompose();
    const images = ["postgres", "valkey", "proxy"].map((name) => [name, String(services[name]?.image)]);
    for (const [target = "", image = ""] of [["node", `node:${NODE}-slim`], ...images]) {
      await docker("build", "--quiet", "--tag", image, "--target", target, base);
    }
  };

  let registryUrl = "";
  try {
    await connectEngine();
    await once(registry.listen(0, host), "listening");
    registryUrl = `http://${host}:${(registry.address() as AddressInfo).port}/`;
    await createImages();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    docker,
    compose,
    /** Folder for a test's own files. */
    folder,
    /** URL of the proxy. */
    url: `http://${address}:8080`,
    /** A server outside of all containers. */
    outside: { host, port: (registry.address() as AddressInfo).port },
    /** Address of a client, from 1 to 120. */
    client: (index: number) => `198.18.${number}.${128 + index}`,
    stop,
  };
};

export type Engine = Awaited<ReturnType<typeof startEngine>>;
