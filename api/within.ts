/** A promise's outcome, or an error when it takes too long: what arrived while this process was busy is not too late. */
export const within = <T>(ms: number, promise: Promise<T>, tooLate: () => Error): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => setImmediate(() => reject(tooLate())), ms);
  });
  return Promise.race([promise, deadline]).finally(() => clearTimeout(timer));
};
