import { join } from "node:path";

const DATA = join(import.meta.dirname, "../.data");

/** Folder of `npm start`. */
export const START_DATA = DATA;
/** Folder of `npm run dev`, which discards its data at each start. */
export const SANDBOX_DATA = process.env.SANDBOX_DATA || join(DATA, "sandbox");
/** Folder of `npm run screenshots`, which discards its data at each start. */
export const SCREENSHOTS_DATA = join(DATA, "screenshots");
