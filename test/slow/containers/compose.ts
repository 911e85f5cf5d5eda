import { execFileSync } from "node:child_process";
import { findProgram, ROOT } from "../../support/run.ts";

type Service = {
  image: string;
  build?: { target: string };
  entrypoint?: string[];
  command?: string[];
  environment?: Record<string, string | number | null>;
  healthcheck?: { test: string[] };
  restart?: string;
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

type Compose = {
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

/** The arguments of docker-compose that select its files, without the .env of this checkout. */
export const selectFiles = ({ files = [], envFile = "test/support/no.env" }: ComposeOptions = {}): string[] => [
  "--env-file",
  envFile,
  ...["docker-compose.yml", ...files].flatMap((file) => ["-f", file]),
];

/** Reads the configuration with docker-compose. */
export const readCompose = (options: ComposeOptions = {}): Compose => {
  const yaml = execFileSync(findProgram("docker-compose") ?? "docker-compose", [...selectFiles(options), "config"], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  // This docker-compose prints only YAML. It is a Python program, so Python's YAML module is available.
  const script = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)";
  const json = execFileSync("python3", ["-c", script], { input: yaml, encoding: "utf8" });
  return JSON.parse(json.replaceAll("$$", "$"));
};
