import { randomBytes } from "node:crypto";

/** Generates a unique name. A process id would not do: a long test run sees some twice. */
export const generateName = (prefix: string): string => `${prefix}_${randomBytes(6).toString("hex")}`;
