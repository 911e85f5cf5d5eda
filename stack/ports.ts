import { createServer } from "node:net";
import { SettingsError } from "./settings.ts";

const listen = (host: string, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address();
      const taken = typeof address === "object" && address !== null ? address.port : port;
      server.close(() => resolve(taken));
    });
  });

/** Whether nobody listens on a port. Throws where one could not listen there at all. */
export const isPortFree = (host: string, port: number): Promise<boolean> =>
  listen(host, port).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") return false;
      throw error;
    },
  );

/**
 * Below those that systems give to outgoing connections: what is free now is free still when it is listened on, and who
 * connects to a server that is away does not get its port, and connects to itself.
 */
const randomPort = (): number => 20_000 + Math.floor(Math.random() * 10_000);

/** A port of loopback that nobody listens on: the preferred one where it can be had. */
export const findFreePort = (preferred = randomPort()): Promise<number> =>
  listen("127.0.0.1", preferred).catch(() => findFreePort());

type WantedPort = { host: string; port: number; use: string; setting: string };

/** Refuses ports that are taken, all at once, before anything is started. */
export const refuseBusyPorts = async (wanted: readonly WantedPort[]): Promise<void> => {
  const problems: string[] = [];
  for (const { host, port, use, setting } of wanted) {
    if (!(await isPortFree(host, port))) {
      problems.push(
        `${setting}: port ${port}, for ${use}, is in use. End what listens there, or set another ${setting}.`,
      );
    }
  }
  if (problems.length > 0) throw new SettingsError(problems);
};
