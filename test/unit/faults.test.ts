import { expect, test } from "vitest";
import { createCounter, listCounterQuestions } from "../../faults/counting-chain.ts";
import { assignErrors } from "../../faults/run-faults.ts";
import { judgeMemory } from "../../faults/soak/memory.ts";

const address = (number: number) => `0x${number.toString(16).padStart(40, "0")}` as const;

test("listCounterQuestions() distinguishes the answers at two consecutive blocks", () => {
  const counter = createCounter({ chainId: 1, accounts: Array.from({ length: 10 }, (_, index) => address(index + 1)) });
  const questions = listCounterQuestions(counter);
  const isTrue = (block: number) =>
    questions.filter(({ isRight, path }) => path.includes("check") && isRight(block, "true")).map(({ path }) => path);
  const [before, after] = [isTrue(4), isTrue(5)];
  // The lowest bit is set in 5 and not in 4, in three checks, and a token. The other bits are the same in both.
  expect(after.filter((path) => !before.includes(path))).toHaveLength(4);
  expect(before.filter((path) => !after.includes(path))).toEqual([]);
  const balance = questions.find(({ path }) => path.includes("erc20"));
  expect([balance?.isRight(7, "7"), balance?.isRight(7, "6")]).toEqual([true, false]);
});

test("assignErrors() explains an error by a fault of its chain, from its start until the recovery", () => {
  const error = { at: 5_000, ms: 3, port: 1, chainId: 137, what: "503 stale-index" };
  const window = { name: "rpc-outage", from: 4_000, causeGone: 6_000, recovered: 9_000 };
  const concerns = ({ chainId }: { chainId: number }) => chainId === 137;
  const windows = [{ ...window, concerns }];
  const unexplained = [
    { ...error, chainId: 1 },
    { ...error, at: 3_999 },
    { ...error, at: 12_000 },
  ];
  expect(assignErrors([error, ...unexplained], windows).unexplained).toEqual(unexplained);
});

test.for<[string, (second: number) => number, boolean]>([
  ["goes up and down", (second) => 150 + (second % 40), true],
  ["grew at first", (second) => Math.min(300, 100 + second), true],
  ["still grows in the last third of a process's life", (second) => 150 + second / 10, false],
])("judgeMemory() judges memory that %s", ([_, megabytes, isFlat]) => {
  const samples = Array.from({ length: 600 }, (_, second) => ({
    at: second * 1000,
    process: "API",
    pid: 1,
    megabytes: megabytes(second),
  }));
  expect(judgeMemory(samples)).toMatchObject([{ isFlat }]);
});
