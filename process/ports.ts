import { createServer } from "node:net";
import { SettingsError } from "./settings.ts";

const listen = (host: string, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address();
      const actualPort = typeof address === "object" && address !== null ? address.port : port;
      server.close(() => resolve(actualPort));
    });
  });

/** Returns true if the port is free. Throws if it cannot be bound for another reason. */
export const isPortFree = (host: string, port: number): Promise<boolean> =>
  listen(host, port).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") return false;
      throw error;
    },
  );

/**
 * Picks a port below the range that systems use for outgoing connections. Such a port stays free until a server listens
 * on it, and a client that connects to a stopped server cannot be given the server's port and connect to itself.
 */
const randomPort = (): number => 20_000 + Math.floor(Math.random() * 10_000);

/** Finds a free port on loopback: the preferred one if it is free. */
export const findFreePort = (preferred = randomPort()): Promise<number> =>
  listen("127.0.0.1", preferred).catch(() => findFreePort());

type RequiredPort = { host: string; port: number; use: string; setting: string };

/** Throws one SettingsError that names every port in use. Called before anything starts. */
export const refuseBusyPorts = async (ports: readonly RequiredPort[]): Promise<void> => {
  const problems: string[] = [];
  for (const { host, port, use, setting } of ports) {
    if (!(await isPortFree(host, port))) {
      problems.push(
        `${setting}: port ${port}, for ${use}, is in use. Stop the program that uses it, or set another ${setting}.`,
      );
    }
  }
  if (problems.length > 0) throw new SettingsError(problems);
};
