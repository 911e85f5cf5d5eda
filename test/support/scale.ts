/** True in `npm run test:nightly`, which runs the same tests with more operations, rows, seeds or minutes. */
export const isNightly = process.env.NIGHTLY === "1";
