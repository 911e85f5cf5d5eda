/** A promise's outcome, or an error when it takes too long. What it waits for goes on. */
export const withDeadline = async <T>(ms: number, promise: Promise<T>, tooLate: () => Error): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    // What arrived while this process was busy is not too late.
    timer = setTimeout(() => setImmediate(() => reject(tooLate())), ms);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
};
