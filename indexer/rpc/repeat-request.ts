import { setTimeout as sleep } from "node:timers/promises";
import type { JsonRpcRequest } from "./json-rpc.ts";
import { isUnreachable } from "./rpc-errors.ts";

/** Attempts to send a request, and the first pause between them. */
export const ATTEMPTS = 6;
export const RETRY_MS = 250;

type Sender = { request: (request: JsonRpcRequest) => Promise<unknown> };

const isNotEmpty = (result: unknown): boolean => result !== null && !(Array.isArray(result) && result.length === 0);

/**
 * Sends a request up to six times within 4 s until its result is complete: behind one URL there may be a node that is
 * out, or lacks a block for a moment.
 * @returns the last result; null for a refusal, as a node that refuses old blocks does not have them
 */
export const repeatRequest = async <Result>(
  sender: Sender,
  request: JsonRpcRequest,
  isComplete: (result: Result) => boolean = isNotEmpty,
): Promise<Result | null> => {
  for (let attempt = 1; ; attempt++) {
    const isLast = attempt === ATTEMPTS;
    try {
      const result = (await sender.request(request)) as Result;
      if (isLast || isComplete(result)) return result;
    } catch (error) {
      if (isLast && isUnreachable(error)) throw error;
      if (isLast) return null;
    }
    await sleep(RETRY_MS * attempt);
  }
};
