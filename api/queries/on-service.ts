import pg from "pg";
import { Problem } from "../problem.ts";

const NO_PRIVILEGE = "42501";

/** Whether a table of the schema "service" is not there, or not for us, yet. */
export const isMissing = (error: unknown): boolean =>
  (error instanceof Problem && error.problem === "not-indexed") ||
  (error instanceof pg.DatabaseError && error.code === NO_PRIVILEGE);

/** What a statement on tables of the schema "service" gives: they may have to be made first. */
export const onService = <Result>(result: Promise<Result>): Promise<Result> =>
  result.catch((error) => {
    if (!isMissing(error)) throw error;
    throw new Problem("database-unavailable", "The tables for this page are not there yet. Try again in a moment.", {
      headers: { "Retry-After": "2" },
    });
  });
