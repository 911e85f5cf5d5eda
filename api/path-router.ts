import type { Params, Result, Router } from "hono/router";

const VARYING = /^(.*\/):(\w+)$/;

/**
 * Routes by maps: of paths that are written out, and of paths whose last part varies. Hono's own choice,
 * one regular expression for all, cannot tell /registry/v2/check/all from /registry/v2/:wallet, and would
 * search a trie for both.
 */
export class PathRouter<T> implements Router<T> {
  readonly name = "PathRouter";
  readonly #fixed = new Map<string, Result<T>>();
  readonly #varying = new Map<string, { handler: T; name: string }>();

  add(method: string, path: string, handler: T): void {
    if (method !== "GET") throw new Error(`${method} ${path}: this service only answers GET.`);
    const [, prefix, name] = VARYING.exec(path) ?? [];
    if (prefix !== undefined && name !== undefined) this.#varying.set(prefix, { handler, name });
    else this.#fixed.set(path, found(handler, {}));
  }

  match(method: string, path: string): Result<T> {
    if (method !== "GET") return NOTHING;
    const fixed = this.#fixed.get(path);
    if (fixed) return fixed;
    const end = path.lastIndexOf("/") + 1;
    const varying = this.#varying.get(path.slice(0, end));
    return varying && end < path.length ? found(varying.handler, { [varying.name]: path.slice(end) }) : NOTHING;
  }
}

const NOTHING: Result<never> = [[]];

const found = <T>(handler: T, params: Params): Result<T> => [[[handler, params]]];
