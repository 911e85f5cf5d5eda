import { Problem } from "../problem.ts";

const RETRY_AFTER = { "Retry-After": "2" };

export const overloaded = (detail: string) => new Problem("overloaded", detail, { headers: RETRY_AFTER });

export const databaseUnavailable = (detail = "The database cannot be reached. Try again in a moment.") =>
  new Problem("database-unavailable", detail, { headers: RETRY_AFTER });
