import { createWriteStream, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Writable } from "node:stream";
import pg from "pg";

/** Folder of databases, logs and results. */
export const DATA = join(import.meta.dirname, "../.data/bench");

/** Opens a log file for a process's output. */
export const logFile = (name: string): Writable => {
  mkdirSync(DATA, { recursive: true });
  return createWriteStream(join(DATA, `${name}.log`));
};

/** Runs a function with a new database, and drops it afterwards. */
export const withDatabase = async <T>(
  serverUrl: string,
  name: string,
  run: (databaseUrl: string) => Promise<T>,
): Promise<T> => {
  const server = new pg.Client(serverUrl);
  await server.connect();
  const drop = () => server.query(`drop database if exists ${name} with (force)`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  try {
    await drop();
    await server.query(`create database ${name}`);
    return await run(url.href);
  } finally {
    await drop();
    await server.end();
  }
};
