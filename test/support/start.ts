import { join } from "node:path";
import { onTestFinished } from "vitest";
import { startNode } from "../../stack/child.ts";
import { UNLIMITED } from "./api.ts";
import { keepOutput } from "./output.ts";

/** `npm start`, until the test is over. */
export const start = (env: NodeJS.ProcessEnv) => {
  const { output, printed } = keepOutput();
  const child = startNode(join(import.meta.dirname, "../../start.ts"), [], {
    output,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, HOST: "127.0.0.1", ...UNLIMITED, ...env },
  });
  onTestFinished(() => child.stop());
  return { ...child, output: printed };
};
