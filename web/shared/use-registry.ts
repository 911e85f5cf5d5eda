import type { RegistryClient } from "../../client/src/index.ts";
import { createAsker, toFailure } from "./registry.ts";
import { useAnswer } from "./use-answer.ts";

/** Asks the client a question once. @param question - its name; null: nothing to ask yet */
export const useRegistry = <Value>(
  question: string | null,
  ask: (registry: RegistryClient, signal: AbortSignal) => Promise<Value>,
) =>
  useAnswer<Value>(question, async (signal) => {
    try {
      return { kind: "ok", value: await ask(createAsker(), signal) };
    } catch (error) {
      return toFailure(error);
    }
  });

/** Asks for the networks and their states. */
export const useNetworkStates = () => useRegistry("networks", (registry, signal) => registry.networks({ signal }));
