import type { OpenAPIRegistry } from "@asteasolutions/zod-to-openapi";
import type { Handler } from "../exchange.ts";

/** Where routes are added, and described. */
export type Routes = {
  registry: OpenAPIRegistry;
  /** @param path - with {name} for a last part that varies */
  get: (path: string, handler: Handler) => void;
};
