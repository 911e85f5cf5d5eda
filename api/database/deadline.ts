/** Rejects a promise that takes too long. Its work continues. */
export const withDeadline = async <T>(ms: number, promise: Promise<T>, createError: () => Error): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    // A result that arrived while this process was busy is in time.
    timer = setTimeout(() => setImmediate(() => reject(createError())), ms);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
};
