import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type Counter, type Question, questionsOf } from "./counting-chain.ts";

// A process of its own that asks, and knows every answer. It reports once a second to whoever started it.

export type Load = {
  /** Connections are shared out among them. */
  ports: readonly number[];
  counters: readonly Counter[];
  connections: number;
  /** How many requests to make a second; null for as many as are answered. */
  perSecond: number | null;
};

/** What happened in a second, or since the last report. */
export type Report = {
  answered: number;
  /** How long the answers took. */
  p50Ms: number;
  p99Ms: number;
  /** Answers that were not right, in words: there should be none, ever. */
  wrong: string[];
  errors: LoadError[];
};

/** Not an answer: a status other than 200, or no connection. `ms`: how long it took to be told so. */
export type LoadError = { at: number; ms: number; port: number; chainId: number; what: string };

const HEAD_END = Buffer.from("\r\n\r\n");
const SILENCE_MS = 5_000;
const RECONNECT_MS = 100;
/** Who is later than this does not catch up: a service that was away is not to be asked for all of it at once. */
const LATEST_MS = 1_000;
const MOST_WRONG = 20;

class Tally {
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
  take(): Report {
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

/** A whole reply at the beginning of what was received, if there is one. */
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

/** Asks over one connection, which is made again when it is lost. */
class Asker {
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

/** Starts a load, which ends with this process. */
const startLoad = ({ ports, counters, connections, perSecond }: Load, tally: Tally) => {
  const questions = counters.flatMap(questionsOf);
  const pauseMs = perSecond === null ? 0 : (1000 * connections) / perSecond;
  let next = 0;

  const askOnce = async (asker: Asker, port: number, { chainId, path, isRight }: Question) => {
    const startedAt = performance.now();
    const fail = (what: string) =>
      tally.error({ at: Date.now(), ms: performance.now() - startedAt, port, chainId, what });
    try {
      const { status, block, body } = await asker.ask(path);
      if (status !== "200") {
        const reason = /"type":"\/docs#problem-([^"]*)"/.exec(body)?.[1] ?? "";
        fail(`${status} ${reason}`);
        return;
      }
      tally.answer(performance.now() - startedAt);
      if (!isRight(block, body)) tally.wrong(`${path} at block ${block}: ${body}`);
    } catch (error) {
      fail(error instanceof Error ? error.message : String(error));
      await sleep(RECONNECT_MS);
    }
  };

  const runConnection = async (index: number) => {
    const port = ports[index % ports.length] ?? 0;
    const asker = new Asker(port);
    let due = performance.now() + (pauseMs * index) / connections;
    for (;;) {
      const question = questions[next++ % questions.length];
      if (!question) return;
      const wait = due - performance.now();
      if (wait > 0) await sleep(wait);
      else if (wait < -LATEST_MS) due = performance.now();
      due += pauseMs;
      await askOnce(asker, port, question);
    }
  };
  for (let index = 0; index < connections; index++) runConnection(index);
};

const tally = new Tally();
process.on("message", (load: Load) => startLoad(load, tally));
process.on("disconnect", () => process.exit());
setInterval(() => process.send?.(tally.take()), 1_000);
