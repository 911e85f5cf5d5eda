import { onTestFinished } from "vitest";
import { startTcpRelay } from "./tcp-relay.ts";

const STORES_CHANGES = /(insert into|copy) "[^"]+"\."delegation_change"/i;
const COMMIT = /commit\0/;

/** Moment at which the connection breaks: before Postgres reads the commit, or before Ponder reads its reply. */
export type LostAt = "commit" | "reply";

/** Starts a second address of a database that breaks Ponder's connection during a commit, on request. */
export const startLossyDatabase = async (databaseUrl: string) => {
  const url = new URL(databaseUrl);
  let lostAt: LostAt | null = null;

  const relay = await startTcpRelay(
    { host: url.hostname, port: Number(url.port) },
    {
      onConnection: (client, server) => {
        let hasChanges = false;
        let isLost = false;
        client.on("data", (chunk) => {
          const text = chunk.toString("latin1");
          hasChanges ||= STORES_CHANGES.test(text);
          const isCommit = COMMIT.test(text);
          if (isCommit && hasChanges && lostAt !== null) {
            isLost = true;
            if (lostAt === "commit") client.destroy();
            else server.write(chunk);
            lostAt = null;
            return;
          }
          if (isCommit) hasChanges = false;
          server.write(chunk);
        });
        // The reply to a lost commit confirms it; Ponder must not read it.
        server.on("data", (chunk) => (isLost ? client.destroy() : client.write(chunk)));
      },
    },
  );
  onTestFinished(relay.stop);

  url.port = String(relay.port);
  return {
    url: url.href,
    /** Breaks the next commit of a transaction in which Ponder stores changes. */
    breakNextCommit: (at: LostAt) => {
      lostAt = at;
    },
    hasBroken: () => lostAt === null,
  };
};
