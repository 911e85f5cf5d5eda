/** How often to look for what is late. */
const LOOK_MS = 25;

type Deadline = { at: number; pass: () => void };

/** What is waited for, in this process. */
const deadlines = new Set<Deadline>();
let timer: NodeJS.Timeout | undefined;

const look = () => {
  if (deadlines.size === 0) {
    clearInterval(timer);
    timer = undefined;
  }
  const now = performance.now();
  for (const deadline of deadlines) {
    // What arrived while this process was busy is not too late.
    if (now >= deadline.at) setImmediate(deadline.pass);
  }
};

/**
 * A promise's outcome, or an error when it takes too long, give or take a moment. All are looked after by one timer: to
 * set one for each, and clear it, takes longer than much of what is waited for.
 */
export const within = <T>(ms: number, promise: Promise<T>, tooLate: () => Error): Promise<T> =>
  new Promise((resolve, reject) => {
    const deadline = { at: performance.now() + ms, pass: () => deadlines.delete(deadline) && reject(tooLate()) };
    deadlines.add(deadline);
    timer ??= setInterval(look, LOOK_MS);
    promise.then(
      (value) => {
        deadlines.delete(deadline);
        resolve(value);
      },
      (error) => {
        deadlines.delete(deadline);
        reject(error);
      },
    );
  });
