import type { Database } from "./database.ts";

/** Remembers the value of each kind, such as a statement: it is compiled once. */
export const memoize = <Kind, Value>(
  create: (kind: Kind) => Value,
  name: (kind: Kind) => string,
): ((kind: Kind) => Value) => {
  const values = new Map<string, Value>();
  return (kind) => {
    const key = name(kind);
    let value = values.get(key);
    if (value === undefined) {
      value = create(kind);
      values.set(key, value);
    }
    return value;
  };
};

/** Remembers a value for each database and names, such as a schema. */
export const memoizeByDatabase = <Value, Names extends string[] = []>(
  create: (database: Database, ...names: Names) => Value,
): ((database: Database, ...names: Names) => Value) => {
  const caches = new WeakMap<Database, (names: Names) => Value>();
  return (database, ...names) => {
    let find = caches.get(database);
    if (!find) {
      find = memoize(
        (names) => create(database, ...names),
        (names) => names.join(" "),
      );
      caches.set(database, find);
    }
    return find(names);
  };
};
