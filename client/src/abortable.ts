/** Waits, or throws the reason of the signal. */
export const sleep = (ms: number, signal?: AbortSignal): Promise<void> => {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const slept = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  // A timer would keep Node from exiting.
  return orAborted(slept, signal).finally(() => clearTimeout(timer));
};

/** Waits for a promise, or throws the reason of the signal. Does not cancel the work behind the promise. */
export const orAborted = <Value>(promise: Promise<Value>, signal?: AbortSignal): Promise<Value> => {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(signal.reason));
    promise.then(resolve, reject).finally(forget);
  });
};

const watched = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls a function on abort. One listener for each signal: thousands of them take a browser quadratic time. */
const onAbort = (signal: AbortSignal, abort: () => void): (() => void) => {
  if (signal.aborted) abort();
  const all = watched.get(signal) ?? new Set();
  if (!watched.has(signal)) {
    watched.set(signal, all);
    signal.addEventListener("abort", () => all.forEach((abort) => void abort()), { once: true });
  }
  all.add(abort);
  return () => all.delete(abort);
};

/** Calls a function with a signal that is aborted with another one, or after a time. Node 18 has no AbortSignal.any(). */
export const withTimeout = async <Value>(
  ms: number,
  outer: AbortSignal | undefined,
  run: (signal: AbortSignal) => Promise<Value>,
): Promise<Value> => {
  const controller = new AbortController();
  const forget = outer && onAbort(outer, () => controller.abort(outer.reason));
  const timer = setTimeout(() => controller.abort(new Error(`No response within ${ms} ms.`)), ms);
  try {
    return await run(controller.signal);
  } finally {
    clearTimeout(timer);
    forget?.();
  }
};
