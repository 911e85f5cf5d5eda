import { Problem } from "../problem.ts";

export const signInRefused = (detail: string) => new Problem("sign-in-refused", detail);
