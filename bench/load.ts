import { connect, type Socket } from "node:net";

// The load generator: one request in flight per connection. It runs in its own process and parses only as much HTTP as
// the answers need: a complete client would use more processor time than the service.

export type Load = {
  /** Connections are distributed over the ports. */
  ports: readonly number[];
  connections: number;
  ms: number;
  /** Complete HTTP requests, sent in this order, repeatedly. */
  requests: readonly string[];
};

export type LoadResult = {
  requestsPerSecond: number;
  requests: number;
  p50Ms: number;
  p99Ms: number;
  /** Number of answers by status. */
  statuses: Record<string, number>;
};

const HEAD_END = Buffer.from("\r\n\r\n");
const CHUNKS_END = Buffer.from("0\r\n\r\n");

const runLoad = async ({ ports, connections, ms, requests }: Load): Promise<LoadResult> => {
  const buffers = requests.map((request) => Buffer.from(request));
  const latencies: number[] = [];
  const statuses: Record<string, number> = {};
  let next = 0;
  const startedAt = performance.now();
  const deadline = startedAt + ms;

  const runConnection = (port: number) =>
    new Promise<void>((resolve, reject) => {
      const socket: Socket = connect({ port, host: "127.0.0.1", noDelay: true });
      let sentAt = 0;
      let received: Buffer | null = null;
      const send = () => {
        sentAt = performance.now();
        if (sentAt >= deadline) {
          socket.destroy();
          resolve();
          return;
        }
        socket.write(buffers[next++ % buffers.length] ?? "");
      };
      socket.on("connect", send);
      socket.on("error", reject);
      socket.on("close", () => reject(new Error("A connection was closed.")));
      socket.on("data", (chunk: Buffer) => {
        received = received ? Buffer.concat([received, chunk]) : chunk;
        const headEnd = received.indexOf(HEAD_END);
        if (headEnd === -1) return;
        const head = received.toString("latin1", 0, headEnd);
        const status = head.slice(9, 12);
        // A preflight's answer has no body, and no length.
        const length = status === "204" ? "0" : /content-length: (\d+)/i.exec(head)?.[1];
        const isWhole =
          length === undefined
            ? received.subarray(-CHUNKS_END.length).equals(CHUNKS_END)
            : received.length >= headEnd + HEAD_END.length + Number(length);
        if (!isWhole) return;
        statuses[status] = (statuses[status] ?? 0) + 1;
        received = null;
        latencies.push(performance.now() - sentAt);
        send();
      });
    });

  await Promise.all(Array.from({ length: connections }, (_, index) => runConnection(ports[index % ports.length] ?? 0)));
  const seconds = (performance.now() - startedAt) / 1000;
  latencies.sort((a, b) => a - b);
  const percentile = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
  return {
    requestsPerSecond: latencies.length / seconds,
    requests: latencies.length,
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
    statuses,
  };
};

// The parent sends a load as a message and receives its result as a message.
process.on("message", async (load: Load) => {
  process.send?.(await runLoad(load).catch((error) => ({ error: String(error) })));
});
