import { overloaded } from "../database/problems.ts";
import { SlidingWindow } from "../limits/sliding-window.ts";
import { Problem } from "../problem.ts";

/** Verifications by contracts that one client, and all clients of this process, may cause. Each takes three requests. */
const PER_CLIENT = { requests: 6, windowMs: 60_000 };
const PER_PROCESS = { requests: 60, windowMs: 60_000 };
const MAX_IN_FLIGHT = 8;
/** Time for which a failure is the answer to the same client and wallet. */
export const FAILURE_SECONDS = 10;

type Attempt = { client: string; wallet: string };

type Failure = { problem: Problem; until: number };

/** Limits the requests that sign-ins send to RPCs: a client that fails costs the others nothing. */
export class VerificationLimits {
  readonly #now: () => number;
  readonly #byClient: SlidingWindow;
  readonly #all: SlidingWindow;
  /** Clients with a verification in flight. */
  readonly #inFlight = new Set<string>();
  /** By client and wallet, oldest first. By wallet alone, anyone could lock its owner out. */
  readonly #failures = new Map<string, Failure>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#byClient = new SlidingWindow(PER_CLIENT, now);
    this.#all = new SlidingWindow(PER_PROCESS, now);
  }

  /** Runs a verification, unless it failed just now or there are too many. */
  async run({ client, wallet }: Attempt, verify: () => Promise<void>): Promise<void> {
    const attempt = `${client} ${wallet}`;
    this.#forgetFailures();
    const failure = this.#failures.get(attempt);
    if (failure) throw failure.problem;
    this.#admit(client);
    this.#inFlight.add(client);
    try {
      await verify();
    } catch (error) {
      if (error instanceof Problem)
        this.#failures.set(attempt, { problem: error, until: this.#now() + FAILURE_SECONDS * 1000 });
      throw error;
    } finally {
      this.#inFlight.delete(client);
    }
  }

  #admit(client: string): void {
    if (this.#inFlight.has(client)) {
      throw tooManyVerifications("Another sign-in from this address is being verified.", 2);
    }
    if (this.#inFlight.size >= MAX_IN_FLIGHT) {
      throw overloaded(
        `${MAX_IN_FLIGHT} sign-ins of smart-contract wallets are being verified. Try again in a moment.`,
      );
    }
    const own = this.#byClient.take(client);
    if (!own.isAdmitted) {
      const limit = `An address may try ${PER_CLIENT.requests} sign-ins of smart-contract wallets in a minute.`;
      throw tooManyVerifications(limit, Math.ceil(own.resetMs / 1000));
    }
    const all = this.#all.take("all");
    if (!all.isAdmitted) {
      const seconds = Math.ceil(all.resetMs / 1000);
      throw new Problem(
        "overloaded",
        `Too many smart-contract wallets sign in at the moment. Try again in ${seconds} s, or sign in with a wallet that has a private key.`,
        { headers: { "Retry-After": String(seconds) } },
      );
    }
  }

  #forgetFailures(): void {
    const now = this.#now();
    for (const [attempt, { until }] of this.#failures) {
      if (until > now) return;
      this.#failures.delete(attempt);
    }
  }
}

const tooManyVerifications = (reason: string, seconds: number) =>
  new Problem("rate-limited", `${reason} Try again in ${seconds} s.`, { headers: { "Retry-After": String(seconds) } });
