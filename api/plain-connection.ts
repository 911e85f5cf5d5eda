import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { pipeline, Readable, Writable } from "node:stream";
import type { Answer, Outgoing, Reply } from "./exchange.ts";
import { readPlainRequest } from "./plain-request.ts";

export type PlainConnectionOptions = {
  /** The most bytes of a request that is read here. */
  longestRequest: number;
  /** How long a client may take to ask something, */
  firstRequestMs: number;
  /** to ask something more, */
  idleMs: number;
  /** and to take nothing of its answer. */
  stallMs: number;
  answer: Answer;
  /** A request is under way from the one to the other. */
  onBegin: (socket: Socket) => void;
  onEnd: (socket: Socket) => void;
  /** Something came before it was due. It is kept until what is under way is answered. */
  onEarly: (socket: Socket) => void;
  /** Nothing was ever asked. */
  onSilence: (socket: Socket) => void;
  /** Goes on with a connection, whatever comes over it. */
  handOver: (socket: Socket) => void;
};

/** So much longer than a client is told a connection is kept: a request that is already on its way is not to be too late. */
const LENIENCE_MS = 1_000;

/**
 * A connection whose requests are plain ones, each asked when the one before is answered. As soon as it is anything else,
 * it is handed over, with what has come of that.
 */
export class PlainConnection {
  readonly #socket: Socket;
  readonly #options: PlainConnectionOptions;
  #hasAsked = false;
  #isUnderWay = false;
  /** Whether the client will ask nothing more. */
  #hasEnded = false;

  constructor(socket: Socket, options: PlainConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.setTimeout(options.firstRequestMs);
    socket.on("data", this.#read).on("end", this.#end).on("timeout", this.#timeOut).on("error", ignore);
  }

  readonly #read = (bytes: Buffer): void => {
    if (this.#isUnderWay) {
      this.#putBack(bytes);
      this.#options.onEarly(this.#socket);
      return;
    }
    const incoming = bytes.length > this.#options.longestRequest ? null : readPlainRequest(bytes, this.#socket);
    if (incoming === null) {
      this.#putBack(bytes);
      this.#handOver();
      return;
    }
    if (!this.#hasAsked) {
      this.#hasAsked = true;
      this.#socket.setTimeout(this.#options.idleMs + LENIENCE_MS);
    }
    this.#isUnderWay = true;
    this.#options.onBegin(this.#socket);
    this.#options.answer(incoming, new PlainResponse(this.#socket, this.#options, this.#finish));
  };

  /** An answer is on its way, and the next question may come. */
  readonly #finish = (): void => {
    this.#isUnderWay = false;
    this.#options.onEnd(this.#socket);
    if (this.#socket.readableLength > 0) this.#handOver();
    else if (this.#hasEnded) this.#socket.end();
  };

  readonly #end = (): void => {
    this.#hasEnded = true;
    if (!this.#isUnderWay) this.#socket.end();
  };

  readonly #timeOut = (): void => {
    if (this.#hasAsked) {
      this.#socket.destroy();
      return;
    }
    this.#leave();
    this.#options.onSilence(this.#socket);
  };

  /** As if it had not been read, and nothing more is until somebody wants it. */
  #putBack(bytes: Buffer): void {
    this.#socket.pause();
    this.#socket.unshift(bytes);
  }

  #handOver(): void {
    if (this.#socket.destroyed) return;
    this.#leave();
    this.#options.handOver(this.#socket);
    this.#socket.resume();
  }

  #leave(): void {
    const socket = this.#socket;
    socket.off("data", this.#read).off("end", this.#end).off("timeout", this.#timeOut).off("error", ignore);
    socket.setTimeout(0);
  }
}

/** What is wrong with a connection shows when it is closed. */
const ignore = () => {};

/** The answer to a plain request, written as Node would. */
class PlainResponse implements Outgoing {
  readonly #socket: Socket;
  readonly #options: PlainConnectionOptions;
  readonly #finish: () => void;
  headersSent = false;

  constructor(socket: Socket, options: PlainConnectionOptions, finish: () => void) {
    this.#socket = socket;
    this.#options = options;
    this.#finish = finish;
  }

  get destroyed(): boolean {
    return this.#socket.destroyed;
  }

  destroy(): void {
    this.#socket.destroy();
  }

  reply(reply: Reply): void {
    const { body } = reply;
    this.headersSent = true;
    if (this.#socket.destroyed) {
      if (body instanceof Readable) body.destroy();
      return;
    }
    const length = lengthOf(body);
    this.#send(writeHead(reply, length, this.#options.idleMs), body, length);
  }

  #send(head: string, body: Reply["body"], length: number | null): void {
    if (typeof body === "string") {
      // As many bytes as characters: it is ASCII, which is written without looking at it again.
      this.#write(`${head}${body}`, length === body.length ? "latin1" : "utf8");
    } else if (body === null) {
      this.#write(head, "latin1");
    } else if (Buffer.isBuffer(body)) {
      this.#socket.cork();
      this.#socket.write(head, "latin1");
      this.#write(body);
      this.#socket.uncork();
    } else {
      this.#stream(head, body);
    }
  }

  #write(data: string | Buffer, encoding?: BufferEncoding): void {
    if (this.#socket.write(data, encoding)) {
      this.#finish();
      return;
    }
    // Nobody is answered faster than he reads.
    this.#socket.setTimeout(this.#options.stallMs);
    this.#socket.once("drain", () => this.#goOn());
  }

  /** Writes a body in chunks, each with its length before it. */
  #stream(head: string, body: Readable): void {
    const socket = this.#socket;
    const write = (data: string | Buffer, done: () => void) => {
      if (socket.write(data)) done();
      else socket.once("drain", done);
    };
    // Not the socket itself: pipeline() would leave listeners on it, and tell the body what went wrong with it.
    const chunks = new Writable({
      write(part: Buffer, _, done) {
        // An empty one would be the end.
        if (part.length === 0) done();
        else write(Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, LINE_END]), done);
      },
      final: (done) => write("0\r\n\r\n", done),
    });
    const leave = () => chunks.destroy();
    socket.once("close", leave);
    // The body may take longer to close than to be read.
    chunks.once("finish", () => {
      socket.off("close", leave);
      this.#goOn();
    });
    socket.setTimeout(this.#options.stallMs);
    socket.write(head, "latin1");
    pipeline(body, chunks, (error) => {
      if (error && !chunks.writableFinished) socket.destroy();
    });
  }

  #goOn(): void {
    if (this.#socket.destroyed) return;
    this.#socket.setTimeout(this.#options.idleMs + LENIENCE_MS);
    this.#finish();
  }
}

const LINE_END = Buffer.from("\r\n");
const WITHOUT_BODY = new Set([204, 304]);

/** How many bytes a body has; null for one that comes in parts. */
const lengthOf = (body: Reply["body"]): number | null =>
  typeof body === "string" || Buffer.isBuffer(body) ? Buffer.byteLength(body) : body === null ? 0 : null;

/** Status and headers, in Node's order. */
const writeHead = ({ status, headers }: Reply, length: number | null, idleMs: number): string => {
  const size = length === null || WITHOUT_BODY.has(status) ? "" : `Content-Length: ${length}\r\n`;
  const coding = length === null ? "Transfer-Encoding: chunked\r\n" : "";
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${size}${headers}Date: ${currentDate()}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${idleMs / 1000}\r\n${coding}\r\n`;
};

let date = "";

/** Now, as HTTP writes it: to the second. */
const currentDate = (): string => {
  if (date === "") {
    const now = new Date();
    date = now.toUTCString();
    setTimeout(() => {
      date = "";
    }, 1000 - now.getMilliseconds()).unref();
  }
  return date;
};
