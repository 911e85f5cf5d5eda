import { rejectOnAbort } from "../process/program.ts";
import { type Candidate, type Inspection, inspectEndpoint } from "./inspect-endpoint.ts";
import { redactUrl } from "./rpc/redact.ts";
import type { ChainSettings } from "./settings.ts";

/** Endpoints inspected at the same time: one provider often counts the requests of all chains together. */
const PARALLEL = 8;
const MAX_WIDTH = 120;
const MAX_NETWORK = 16;
const MIN_ENDPOINT = 12;
const ENDPOINT_COLUMN = 1;
const GAP = "  ";

type Inspected = Candidate & { inspection: Inspection };

/**
 * Tries every endpoint of some chains, and prints a table and what is wrong with them.
 * @returns true if the indexer can start: each chain has an endpoint that is ready, and none is on another chain
 */
export const inspectEndpoints = async (
  chains: readonly ChainSettings[],
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<boolean> => {
  const candidates = chains.flatMap(listCandidates);
  const inspected: Inspected[] = [];
  const queue = candidates.entries();
  const workers = Array.from({ length: PARALLEL }, async () => {
    for (const [index, candidate] of queue) {
      inspected[index] = { ...candidate, inspection: await inspectEndpoint(candidate) };
    }
  });
  await rejectOnAbort(signal, Promise.all(workers));

  print(formatTable(inspected));
  const unready = chains.filter(
    (chain) => !inspected.some((one) => one.chain === chain && one.isRpc && one.inspection.isReady),
  );
  const problems = [
    ...inspected.flatMap(describeEndpoint),
    ...unready.map(({ network }) => `${network.name}: no endpoint is ready.`),
  ];
  if (problems.length > 0) print(["", ...problems].join("\n"));
  return unready.length === 0 && !inspected.some(isOnOtherChain);
};

const listCandidates = (chain: ChainSettings): Candidate[] => [
  ...chain.rpcUrls.map((url) => ({ chain, url, isRpc: true })),
  ...(chain.wsUrl === null ? [] : [{ chain, url: chain.wsUrl, isRpc: false }]),
];

const isOnOtherChain = ({ chain, inspection: { chainId } }: Inspected) =>
  chainId !== null && chainId !== chain.network.chainId;

const describeEndpoint = ({ chain, url, isRpc, inspection: { verdict, reason } }: Inspected): string[] => {
  const variable = `PONDER_${isRpc ? "RPC" : "WS"}_URL_${chain.network.chainId}`;
  return reason === undefined ? [] : [`${variable} (${redactUrl(url)}) ${verdict}: ${reason}`];
};

const HEAD = [
  "NETWORK",
  "ENDPOINT",
  "UP",
  "CHAIN",
  "BLOCK",
  "AGE",
  "ARCHIVE",
  "HISTORY",
  "RANGE",
  "LATENCY",
  "VERDICT",
];

const formatTable = (inspected: readonly Inspected[]): string => {
  const rows = [HEAD, ...inspected.map(formatRow)];
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const others = widths.toSpliced(ENDPOINT_COLUMN, 1).reduce((sum, width) => sum + width + GAP.length, 0);
  const widestEndpoint = Math.max(MIN_ENDPOINT, MAX_WIDTH - others);
  const formatCell = (cell: string, column: number) => {
    const width = Math.min(widths[column] ?? 0, column === ENDPOINT_COLUMN ? widestEndpoint : MAX_WIDTH);
    return shorten(cell, width).padEnd(width);
  };
  return rows.map((row) => row.map(formatCell).join(GAP).trimEnd()).join("\n");
};

const formatRow = ({ chain: { network }, url, inspection }: Inspected): string[] => {
  const { isReachable, chainId, block, ageSeconds, hasState, hasHistory, logsRange, latencyMs, verdict } = inspection;
  return [
    shorten(`${network.chainId} ${network.name}`, MAX_NETWORK),
    redactUrl(url).replace(/^https?:\/\//, ""),
    formatFlag(isReachable),
    chainId === network.chainId ? "right" : formatNumber(chainId),
    formatNumber(block),
    ageSeconds === null ? "–" : formatAge(ageSeconds),
    formatFlag(hasState),
    formatFlag(hasHistory),
    formatNumber(logsRange),
    latencyMs === null ? "–" : `${Math.ceil(latencyMs)} ms`,
    verdict,
  ];
};

const shorten = (text: string, width: number) => (text.length > width ? `${text.slice(0, width - 1)}…` : text);

const formatFlag = (flag: boolean | null) => (flag === null ? "–" : flag ? "yes" : "no");

const formatNumber = (value: number | null) => (value === null ? "–" : String(value));

const formatAge = (seconds: number): string => {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
};
