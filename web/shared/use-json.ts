import { fetchJson } from "./fetch-json.ts";
import { useAnswer } from "./use-answer.ts";

/** Fetches a path once. */
export const useJson = <Value>(path: string) => useAnswer(path, (signal) => fetchJson<Value>(path, { signal }));
