import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import type { Load, LoadResult } from "./load.ts";

/** A process that sends requests: see load.ts. */
export class LoadProcess {
  readonly #child: ChildProcess = fork(join(import.meta.dirname, "load.ts"), { execArgv: ["--import", "tsx"] });

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  run(load: Load): Promise<LoadResult> {
    return new Promise((resolve, reject) => {
      this.#child.once("message", (result: LoadResult | { error: string }) =>
        "error" in result ? reject(new Error(result.error)) : resolve(result),
      );
      this.#child.send(load);
    });
  }

  stop(): void {
    this.#child.kill();
  }
}
