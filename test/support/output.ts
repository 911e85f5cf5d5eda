import { PassThrough } from "node:stream";

/** Captures the output of a process. */
export const captureOutput = () => {
  const chunks: string[] = [];
  const output = new PassThrough();
  output.on("data", (chunk: Buffer) => chunks.push(chunk.toString()));
  return { output, printed: () => chunks.join("") };
};
