import { expect } from "vitest";
import type { Proof } from "../../client/src/proof.ts";
import { type Api, HOT, VAULT } from "./api.ts";

// Asks POST /registry/checks.

type Answers = {
  answers: {
    id?: unknown;
    result?: boolean | string;
    proof?: Proof;
    problem?: { type: string; status: number; detail: string };
  }[];
  blocks: Record<string, { number: number; timestamp: number | null; final: boolean }>;
};

/** A check of the samples that answers true. */
export const ALL = { registry: "v2", check: "all", to: HOT, from: VAULT };

/** @param body - JSON text, or what to write as JSON */
export const postChecks = (
  api: Api,
  body: unknown,
  { headers = {}, query = "" }: { headers?: Record<string, string>; query?: string } = {},
) =>
  api.get(`/registry/checks${query}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

export const askChecks = async (api: Api, body: unknown, headers: Record<string, string> = {}): Promise<Answers> => {
  const response = await postChecks(api, body, { headers });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text);
};
