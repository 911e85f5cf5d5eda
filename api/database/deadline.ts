/** Rejects a promise that takes too long. Its work continues. */
export const withDeadline = async <T>(ms: number, promise: Promise<T>, createError: () => Error): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  let immediate: NodeJS.Immediate | undefined;
  const deadline = new Promise<never>((_, reject) => {
    // A result that arrived while this process was busy is in time.
    timer = setTimeout(() => {
      immediate = setImmediate(() => reject(createError()));
    }, ms);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
    clearImmediate(immediate);
  }
};

const STEP_MS = 50;

/**
 * Rejects a promise that takes too long, not counting time in which this process did nothing: it was busy, or got no
 * processor. A stall of any length counts as one step.
 */
export const withPatience = async <T>(ms: number, promise: Promise<T>, createError: () => Error): Promise<T> => {
  let isOver = false;
  const settled = promise.finally(() => {
    isOver = true;
  });
  settled.catch(() => {});
  for (let waited = 0; waited < ms && !isOver; waited += STEP_MS) {
    await withDeadline(STEP_MS, settled, createError).catch(() => {});
  }
  if (!isOver) throw createError();
  return settled;
};
