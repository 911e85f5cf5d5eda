/** Maps items with at most some calls in flight, and returns the results in order. Starts no more after an error. */
export const mapConcurrently = async <Item, Result>(
  items: readonly Item[],
  maxInFlight: number,
  map: (item: Item) => Promise<Result>,
): Promise<Result[]> => {
  const results: Result[] = [];
  const rest = items.entries();
  let hasFailed = false;
  const work = async () => {
    for (const [index, item] of rest) {
      if (hasFailed) return;
      results[index] = await map(item).catch((error) => {
        hasFailed = true;
        throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: maxInFlight }, work));
  return results;
};
