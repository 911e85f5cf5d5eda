import { onTestFinished } from "vitest";
import { findFreePort } from "../../process/ports.ts";
import { startTcpRelay } from "./tcp-relay.ts";

/**
 * Creates a second address of a database that a test opens and closes, as if Postgres were not running.
 * It is closed at first and when the test is over.
 */
export const createDatabaseRelay = async (databaseUrl: string) => {
  const url = new URL(databaseUrl);
  const target = { host: url.hostname, port: Number(url.port) };
  const listenPort = await findFreePort();
  url.port = String(listenPort);
  let relay: Awaited<ReturnType<typeof startTcpRelay>> | undefined;
  const open = async (): Promise<void> => {
    relay = await startTcpRelay(target, { listenPort });
  };
  const close = (): void => relay?.stop();
  onTestFinished(close);
  return { url: url.href, open, close };
};
