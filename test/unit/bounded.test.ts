import { expect, test } from "vitest";
import { BoundedMap, BoundedSet } from "../../process/bounded.ts";

test("BoundedMap forgets the entries that were set longest ago, and a smaller maximum applies from the next set() on", () => {
  const map = new BoundedMap<string, number>(3);
  map.set("a", 1).set("b", 2).set("c", 3).set("a", 4).set("d", 5);
  expect([...map]).toEqual([
    ["c", 3],
    ["a", 4],
    ["d", 5],
  ]);
  map.max = 1;
  map.set("e", 6);
  expect([...map]).toEqual([["e", 6]]);
});

test("BoundedMap forgets the oldest entries after others were removed, and after all were", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2).set("c", 3);
  map.delete("b");
  map.set("d", 4).set("e", 5);
  expect([...map.keys()]).toEqual(["d", "e"]);
  map.clear();
  map.set("f", 6).set("g", 7).set("h", 8);
  expect([...map.keys()]).toEqual(["g", "h"]);
});

test("BoundedSet forgets the values that were added longest ago", () => {
  const set = new BoundedSet<string>(2);
  set.add("a").add("b").add("a").add("c");
  expect([...set]).toEqual(["b", "c"]);
});
