import { join } from "node:path";

const DATA = join(import.meta.dirname, "../.data");

/** Where `npm start` keeps what it needs, and `npm run dev`, which starts anew each time. */
export const START_DATA = DATA;
export const SANDBOX_DATA = process.env.SANDBOX_DATA || join(DATA, "sandbox");
