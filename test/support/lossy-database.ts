import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

const STORES_CHANGES = /(insert into|copy) "[^"]+"\."delegation_change"/i;
const COMMIT = /commit\0/;

/** Where a connection breaks while Ponder commits: before Postgres has read the commit, or before its reply. */
export type LostAt = "commit" | "reply";

/** Another address of a database, which breaks a connection of Ponder's while it commits, whenever it is told to. */
export const startLossyDatabase = async (databaseUrl: string) => {
  const { hostname, port } = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let lostAt: LostAt | null = null;

  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    let hasChanges = false;
    let isLost = false;
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("error", () => {});
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
    near.on("data", (chunk) => {
      const text = chunk.toString("latin1");
      hasChanges ||= STORES_CHANGES.test(text);
      const isCommit = COMMIT.test(text);
      if (isCommit && hasChanges && lostAt !== null) {
        isLost = true;
        if (lostAt === "commit") near.destroy();
        else far.write(chunk);
        lostAt = null;
        return;
      }
      if (isCommit) hasChanges = false;
      far.write(chunk);
    });
    // The reply to a lost commit says that it has been done.
    far.on("data", (chunk) => (isLost ? near.destroy() : near.write(chunk)));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });

  const url = new URL(databaseUrl);
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    /** Breaks the next commit of a transaction in which Ponder stores changes. */
    breakNextCommit: (at: LostAt) => {
      lostAt = at;
    },
    hasBroken: () => lostAt === null,
  };
};
