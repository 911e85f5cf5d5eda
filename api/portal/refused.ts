import { Problem } from "../problem.ts";

/** What is said to whoever may not sign in, and why. */
export const refused = (detail: string) => new Problem("sign-in-refused", detail);
