import { randomBytes } from "node:crypto";

/** A name that nothing else has. The id of a process would not do: a long run of the tests meets one twice. */
export const uniqueName = (prefix: string): string => `${prefix}_${randomBytes(6).toString("hex")}`;
