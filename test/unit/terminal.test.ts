import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { IndexProgress } from "../../indexer/shards/progress.ts";
import { type FetchedHistory, parseFetchedHistory } from "../../local/fetched-history.ts";
import { Terminal } from "../../local/terminal.ts";
import { captureOutput, renderScreen } from "../support/run.ts";
import { waitUntil } from "../support/setup.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const openTerminal = () => {
  const { output, printed } = captureOutput();
  const terminal = new Terminal(Object.assign(output, { isTTY: true, columns: 100, rows: 30 }));
  return { terminal, screen: () => renderScreen(printed()), printed };
};

const ETHEREUM: IndexProgress = { chainId: 1, start: 1_000, reached: 0, newest: 41_000 };
const BASE: IndexProgress = { chainId: 8453, start: 0, reached: 0, newest: 7_000_000 };
const fetched = (ethereum: number, base: number) =>
  new Map<string, FetchedHistory>([
    ["Ethereum", { fetched: ethereum, total: 40_000 }],
    ["Base", { fetched: base, total: 7_000_000 }],
  ]);

test("Terminal updates a line per chain in place: blocks, percent, speed, time left; then says that it is live", () => {
  const { terminal, screen } = openTerminal();
  terminal.showProgress([ETHEREUM, BASE], new Map());
  expect(screen()).toEqual([
    "Ethereum  0 of 40,000 blocks indexed  0.0 %",
    "Base      0 of 7,000,000 blocks indexed  0.0 %",
  ]);
  vi.advanceTimersByTime(10_000);
  terminal.showProgress([ETHEREUM, BASE], fetched(0, 0));
  vi.advanceTimersByTime(10_000);
  terminal.showProgress([ETHEREUM, BASE], fetched(19_998, 1_000));
  expect(screen()).toEqual([
    "Ethereum  19,998 of 40,000 blocks fetched  49.9 %  2,000 blocks/s  10 s left",
    "Base      1,000 of 7,000,000 blocks fetched  0.0 %  100 blocks/s  19 h 27 min left",
  ]);
  vi.advanceTimersByTime(10_000);
  terminal.showProgress([{ ...ETHEREUM, reached: 31_000 }, BASE], fetched(40_000, 3_500_000));
  expect(screen()).toEqual([
    "Ethereum  30,000 of 40,000 blocks indexed  75.0 %",
    "Base      3,500,000 of 7,000,000 blocks fetched  50.0 %  175,000 blocks/s  20 s left",
  ]);
  vi.advanceTimersByTime(10_000);
  terminal.showProgress(
    [
      { ...ETHEREUM, reached: 41_000 },
      { ...BASE, reached: 7_000_001 },
    ],
    fetched(40_000, 7_000_000),
  );
  terminal.showLive();
  terminal.log("The next line.");
  expect(screen()).toEqual([
    "Ethereum  live at block 41,000",
    "Base      live at block 7,000,001",
    expect.stringMatching(/^\[\d\d:\d\d:\d\d] INFO: The next line\.$/),
  ]);
});

test("Terminal draws progress at most twice a second", () => {
  const { terminal, printed } = openTerminal();
  let draws = 0;
  let before = "";
  for (let ms = 0; ms < 5_000; ms += 50) {
    terminal.showProgress([ETHEREUM, BASE], fetched(ms, ms));
    if (printed() !== before) draws += 1;
    before = printed();
    vi.advanceTimersByTime(50);
  }
  expect(draws).toBe(10);
});

test("Terminal prints lines of children above the progress, and hides those below warn until it is live", async () => {
  const { terminal, screen } = openTerminal();
  const child = terminal.createOutput();
  terminal.showProgress([BASE], fetched(0, 7));
  child.write('{"level":30,"time":1,"msg":"hidden"}\n{"level":40,"time":1,"msg":"A warn');
  child.write('ing","chain":"Base"}\nplain text\n');
  const seen = await waitUntil("the lines are shown", screen, 5, (lines) => lines.length === 3);
  expect(seen).toEqual([
    expect.stringMatching(/WARN: A warning {"chain":"Base"}$/),
    "plain text",
    "Base  7 of 7,000,000 blocks fetched  0.0 %",
  ]);

  terminal.showLive();
  child.write('{"level":30,"time":1,"msg":"shown"}\n');
  const later = await waitUntil("the line is shown", screen, 5, (lines) => lines.length === 4);
  expect(later.slice(2)).toEqual(["Base  live at block 0", expect.stringMatching(/INFO: shown$/)]);
});

test("parseFetchedHistory adds cached and completed blocks of each chain", () => {
  const metrics = [
    "# TYPE ponder_historical_total_blocks gauge",
    'ponder_historical_total_blocks{chain="Arbitrum Nova"} 500',
    'ponder_historical_total_blocks{chain="Base"} 90',
    'ponder_historical_cached_blocks{chain="Arbitrum Nova"} 100',
    'ponder_historical_completed_blocks{chain="Arbitrum Nova"} 50',
    'ponder_sync_block{chain="Base"} 7',
  ].join("\n");
  expect(parseFetchedHistory(metrics)).toEqual(
    new Map([
      ["Arbitrum Nova", { fetched: 150, total: 500 }],
      ["Base", { fetched: 0, total: 90 }],
    ]),
  );
});
