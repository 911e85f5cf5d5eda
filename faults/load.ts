import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type Counter, type CounterQuestion, listCounterQuestions } from "./counting-chain.ts";

// A process that sends requests and verifies every answer. It reports to its parent once a second.

export type LoadOptions = {
  /** API ports, over which connections are distributed. */
  ports: readonly number[];
  counters: readonly Counter[];
  connections: number;
  /** Requests per second; null for as many as possible. */
  perSecond: number | null;
};

/** Results since the last report. */
export type LoadReport = {
  answered: number;
  p50Ms: number;
  p99Ms: number;
  /** Descriptions of wrong answers. There must never be one. */
  wrong: string[];
  errors: LoadError[];
};

/** A status other than 200, or a failed connection. `ms`: time until the failure. */
export type LoadError = { at: number; ms: number; port: number; chainId: number; what: string };

const HEAD_END = Buffer.from("\r\n\r\n");
const SILENCE_MS = 5_000;
const RECONNECT_MS = 100;
/** A connection that is later than this does not catch up, so that a recovering service is not flooded. */
const LATEST_MS = 1_000;
const MOST_WRONG = 20;

class LoadRecorder {
  #latencies: number[] = [];
  #wrong: string[] = [];
  #errors: LoadError[] = [];

  answer(ms: number) {
    this.#latencies.push(ms);
  }
  wrong(what: string) {
    if (this.#wrong.length < MOST_WRONG) this.#wrong.push(what);
  }
  error(error: LoadError) {
    this.#errors.push(error);
  }
  take(): LoadReport {
    const sorted = this.#latencies.sort((a, b) => a - b);
    const percentile = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0;
    const report = {
      answered: sorted.length,
      p50Ms: percentile(0.5),
      p99Ms: percentile(0.99),
      wrong: this.#wrong,
      errors: this.#errors,
    };
    [this.#latencies, this.#wrong, this.#errors] = [[], [], []];
    return report;
  }
}

type Reply = { status: string; block: number; body: string };

/** Parses a complete reply at the start of the buffer; null if it is incomplete. */
const readReply = (received: Buffer): Reply | null => {
  const headEnd = received.indexOf(HEAD_END);
  if (headEnd === -1) return null;
  const head = received.toString("latin1", 0, headEnd);
  const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
  const end = headEnd + HEAD_END.length + length;
  if (received.length < end) return null;
  const block = Number(/x-indexed-block: (\d+)/i.exec(head)?.[1]);
  return { status: head.slice(9, 12), block, body: received.toString("utf8", headEnd + HEAD_END.length, end) };
};

/** Sends requests over one connection, and reconnects when it is lost. */
class HttpConnection {
  readonly #port: number;
  #socket: Socket | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  async ask(path: string): Promise<Reply> {
    this.#socket ??= await this.#connect();
    const socket = this.#socket;
    return new Promise((resolve, reject) => {
      let received: Buffer = Buffer.alloc(0);
      const settle = (run: () => void) => {
        clearTimeout(timer);
        socket.removeAllListeners("data").removeAllListeners("close");
        run();
      };
      const fail = (what: string) =>
        settle(() => {
          socket.destroy();
          this.#socket = undefined;
          reject(new Error(what));
        });
      const timer = setTimeout(() => fail(`no answer in ${SILENCE_MS} ms`), SILENCE_MS);
      socket.on("close", () => fail("the connection was closed"));
      socket.on("data", (chunk: Buffer) => {
        received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
        const reply = readReply(received);
        if (reply) settle(() => resolve(reply));
      });
      socket.write(`GET ${path} HTTP/1.1\r\nHost: soak\r\n\r\n`);
    });
  }

  #connect(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port: this.#port, host: "127.0.0.1", noDelay: true });
      socket.once("connect", () => {
        socket.removeAllListeners("error").on("error", () => {});
        resolve(socket);
      });
      socket.once("error", (error: NodeJS.ErrnoException) => reject(new Error(error.code ?? error.message)));
    });
  }
}

/** Starts the load, which ends with this process. */
const startLoad = ({ ports, counters, connections, perSecond }: LoadOptions, recorder: LoadRecorder) => {
  const questions = counters.flatMap(listCounterQuestions);
  const pauseMs = perSecond === null ? 0 : (1000 * connections) / perSecond;
  /** Newest block that any API has answered from, by chain. No later request is answered from an older one. */
  const newest = new Map<number, number>();
  let next = 0;

  const askOnce = async (connection: HttpConnection, port: number, { chainId, path, isRight }: CounterQuestion) => {
    const startedAt = performance.now();
    const known = newest.get(chainId) ?? 0;
    const fail = (what: string) =>
      recorder.error({ at: Date.now(), ms: performance.now() - startedAt, port, chainId, what });
    try {
      const { status, block, body } = await connection.ask(path);
      if (status !== "200") {
        const reason = /"type":"\/docs#problem-([^"]*)"/.exec(body)?.[1] ?? "";
        fail(`${status} ${reason}`);
        return;
      }
      recorder.answer(performance.now() - startedAt);
      newest.set(chainId, Math.max(block, newest.get(chainId) ?? 0));
      if (!isRight(block, body)) recorder.wrong(`${path} at block ${block}: ${body}`);
      if (block < known) recorder.wrong(`${path} at block ${block}, after an answer at block ${known}`);
    } catch (error) {
      fail(error instanceof Error ? error.message : String(error));
      await sleep(RECONNECT_MS);
    }
  };

  const runConnection = async (index: number) => {
    const port = ports[index % ports.length] ?? 0;
    const connection = new HttpConnection(port);
    let due = performance.now() + (pauseMs * index) / connections;
    for (;;) {
      const question = questions[next++ % questions.length];
      if (!question) return;
      const wait = due - performance.now();
      if (wait > 0) await sleep(wait);
      else if (wait < -LATEST_MS) due = performance.now();
      due += pauseMs;
      await askOnce(connection, port, question);
    }
  };
  for (let index = 0; index < connections; index++) runConnection(index);
};

const recorder = new LoadRecorder();
process.on("message", (load: LoadOptions) => startLoad(load, recorder));
process.on("disconnect", () => process.exit());
setInterval(() => process.send?.(recorder.take()), 1_000);
