/**
 * Measures the longest turn of this process's event loop during a task, in milliseconds of processor time: other
 * processes on the machine do not count.
 */
export const measureLongestTurn = async <Result>(task: () => Promise<Result>) => {
  let longestMs = 0;
  let isOver = false;
  let last = process.cpuUsage();
  const watch = () => {
    const { user, system } = process.cpuUsage(last);
    longestMs = Math.max(longestMs, (user + system) / 1000);
    last = process.cpuUsage();
    if (!isOver) setImmediate(watch);
  };
  setImmediate(watch);
  const result = await task().finally(() => {
    isOver = true;
  });
  return { result, longestMs };
};
