/** A promise's outcome, or an error when it takes too long. */
export const within = <T>(ms: number, promise: Promise<T>, tooLate: () => Error): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(tooLate()), ms);
  });
  return Promise.race([promise, deadline]).finally(() => clearTimeout(timer));
};
