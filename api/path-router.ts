const VARYING = /^(.*\/)\{\w+\}$/;

/** What was found at a path, and what stands where its pattern varies. */
type Match<Target> = { target: Target; varying: string };

/** Finds what a path leads to, by maps: of paths that are written out, and of those whose last part varies. */
export class PathRouter<Target> {
  readonly #fixed = new Map<string, Match<Target>>();
  readonly #varying = new Map<string, Target>();

  /** @param pattern - a path, in which {name} stands for a last part that varies */
  add(pattern: string, target: Target): void {
    const [, prefix] = VARYING.exec(pattern) ?? [];
    if (prefix !== undefined) this.#varying.set(prefix, target);
    else this.#fixed.set(pattern, { target, varying: "" });
  }

  find(path: string): Match<Target> | null {
    const fixed = this.#fixed.get(path);
    if (fixed) return fixed;
    const end = path.lastIndexOf("/") + 1;
    const target = this.#varying.get(path.slice(0, end));
    return target !== undefined && end < path.length ? { target, varying: path.slice(end) } : null;
  }
}
