import type { OpenAPIRegistry } from "@asteasolutions/zod-to-openapi";
import type { Handler } from "../exchange.ts";

/** What a path answers, by method. */
export type Handlers = Readonly<Partial<Record<"GET" | "POST" | "DELETE", Handler>>>;

/** Where routes are added, and described. */
export type Routes = {
  registry: OpenAPIRegistry;
  /** @param path - with {name} for a last part that varies */
  get: (path: string, handler: Handler) => void;
  /** What is for our own pages alone: no other origin may read it, and there is more than GET. */
  addPrivate: (path: string, handlers: Handlers) => void;
};
