/** Removes the oldest entries of a map or set that has more than the maximum. */
export const removeOldest = (entries: Map<unknown, unknown> | Set<unknown>, max: number) => {
  for (const key of entries.keys()) {
    if (entries.size <= max) return;
    entries.delete(key);
  }
};
