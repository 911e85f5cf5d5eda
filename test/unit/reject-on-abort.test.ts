import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { rejectOnAbort } from "../../process/program.ts";

test("rejectOnAbort() leaves no listener behind, however often a signal is used", async () => {
  const { signal } = new AbortController();
  for (let use = 0; use < 20; use++) {
    expect(await rejectOnAbort(signal, Promise.resolve(use))).toBe(use);
    await expect(rejectOnAbort(signal, Promise.reject(new Error("failed")))).rejects.toThrow("failed");
  }
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("rejectOnAbort() rejects when the signal is aborted, now or before", async () => {
  const controller = new AbortController();
  const waiting = rejectOnAbort(controller.signal, new Promise(() => {}));
  controller.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
  await expect(rejectOnAbort(controller.signal, new Promise(() => {}))).rejects.toThrow("stopped");
});
