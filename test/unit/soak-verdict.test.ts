import { expect, test } from "vitest";
import { createCounter, listCounterQuestions } from "../slow/soak/counting-chain.ts";
import { assignErrors, judgeMemory } from "../slow/soak/verdict.ts";

const address = (number: number) => `0x${number.toString(16).padStart(40, "0")}` as const;

test("listCounterQuestions() distinguishes the answers at two consecutive blocks", () => {
  const counter = createCounter({ chainId: 1, accounts: Array.from({ length: 10 }, (_, index) => address(index + 1)) });
  const questions = listCounterQuestions(counter);
  const changing = questions.filter(({ isRight }) => isRight(4, "true") || isRight(5, "true"));
  // The lowest bit is set in 5 and not in 4; the others are the same in both.
  const differing = changing.filter(({ isRight }) => isRight(4, "true") !== isRight(5, "true"));
  expect(differing).toHaveLength(2);
  const balance = questions.find(({ path }) => path.includes("erc20"));
  expect([balance?.isRight(7, "7"), balance?.isRight(7, "6")]).toEqual([true, false]);
});

test("sortErrors() explains an error by a fault of its chain, from its start until the recovery", () => {
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

test("judgeMemory() rejects memory that still grows in the last third of a process's life", () => {
  const minutes = (megabytes: (second: number) => number) =>
    Array.from({ length: 600 }, (_, second) => ({
      at: second * 1000,
      process: "API",
      pid: 1,
      megabytes: megabytes(second),
    }));
  expect(judgeMemory(minutes((second) => 150 + (second % 40)))).toMatchObject([{ isFlat: true }]);
  expect(judgeMemory(minutes((second) => Math.min(300, 100 + second)))).toMatchObject([{ isFlat: true }]);
  expect(judgeMemory(minutes((second) => 150 + second / 10))).toMatchObject([{ isFlat: false }]);
});
