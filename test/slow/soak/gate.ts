import { forwardAll, startTcpRelay } from "../../support/tcp-relay.ts";

/** Starts a relay to a local server that can be closed and opened again. */
export const startGate = async (port: number) => {
  let isOpen = true;
  const relay = await startTcpRelay(
    { host: "127.0.0.1", port },
    {
      onConnection: (client, server) => {
        if (isOpen) forwardAll(client, server);
        else client.destroy();
      },
    },
  );
  return {
    port: relay.port,
    close: () => {
      isOpen = false;
      relay.breakConnections();
    },
    open: () => {
      isOpen = true;
    },
    stop: relay.stop,
  };
};
