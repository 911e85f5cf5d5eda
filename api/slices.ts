import { setImmediate as nextTurn } from "node:timers/promises";

/** Time for which values are used in one turn of the event loop. */
const SLICE_MS = 0.2;

/**
 * Creates a function that waits for a turn of the event loop.
 * @param size - calls that continue in the same turn; the next ones have a later turn
 */
export const createTurnQueue = (size: number): (() => Promise<void>) => {
  let calls = 0;
  let last = Promise.resolve();
  return () => {
    if (calls++ % size === 0) last = last.then(() => nextTurn());
    return last;
  };
};

/** All requests together run one slice in a turn of the event loop. */
const waitForSlice = createTurnQueue(1);

/** Calls a function for each value. Other requests are answered between slices, however many requests have slices. */
export const inSlices = async <Value>(
  values: readonly Value[],
  use: (value: Value, index: number) => void,
): Promise<void> => {
  let endsAt = performance.now() + SLICE_MS;
  for (const [index, value] of values.entries()) {
    if (performance.now() > endsAt) {
      await waitForSlice();
      endsAt = performance.now() + SLICE_MS;
    }
    use(value, index);
  }
};

/** Renders values as the content of a JSON array. */
export const renderInSlices = async <Value>(
  values: readonly Value[],
  render: (value: Value, index: number) => string,
): Promise<string> => {
  const texts: string[] = [];
  await inSlices(values, (value, index) => texts.push(render(value, index)));
  return texts.join();
};
