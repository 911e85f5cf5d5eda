import { PassThrough } from "node:stream";

/** Keeps what a process prints. */
export const keepOutput = () => {
  const chunks: string[] = [];
  const output = new PassThrough();
  output.on("data", (chunk: Buffer) => chunks.push(chunk.toString()));
  return { output, printed: () => chunks.join("") };
};
