import { hexToBigInt, numberToHex } from "viem";
import { askNode, type RpcRequest, type RpcResponse } from "./rpc-proxy.ts";

// A simulated RPC provider before a local chain, with the wordings of real ones.

/** How a simulated provider differs from the node behind it. */
export type Behaviour = {
  /** Refuses what the provider refuses. */
  dialect?: Dialect;
  /** The largest range of blocks, and the most logs, instead of the dialect's. */
  maxBlocks?: number;
  maxLogs?: number;
  /** The first block whose logs the node has. For earlier blocks it returns none. */
  logsSince?: number;
  logIndex?: LogIndex;
  /** The number of blocks by which the node behind this request lacks the newest ones. */
  countBehind?: () => number;
  bloom?: Bloom;
  /** True for a node without eth_getBlockReceipts. */
  lacksReceipts?: boolean;
  /** Answers a request instead of the node: an outage, a rate limit. */
  interrupt?: (request: RpcRequest) => RpcResponse | undefined;
  /** Called for each answer that differs from the node's for one of these reasons. */
  report?: (fault: ProviderFault) => void;
};

/**
 * A defect of a node's log index, which is apart from its blocks and receipts. It has the same effect on every request for
 * logs, by range or by block; a truncated response loses the logs after its limit, and "twice" loses none.
 */
export type LogIndex =
  | { defect: "without every third log" | "without logs"; first: number; last: number }
  | { defect: "behind"; blocks: number }
  | { defect: "truncated"; logs: number }
  | { defect: "twice" };

export type Bloom = "zeros" | "ones" | "extra bits" | "missing bits";
export type ProviderFault =
  | "range limit"
  | "result limit"
  | "size limit"
  | "no old logs"
  | "old head"
  | `log index: ${LogIndex["defect"]}`
  | `bloom: ${Bloom}`;

type RpcLog = { blockNumber: `0x${string}`; logIndex: `0x${string}`; address: string };
type RpcBlock = { number: `0x${string}`; logsBloom: `0x${string}`; transactions: (string | { hash: string })[] };
type Filter = { fromBlock?: string; toBlock?: string; blockHash?: string };

const ZEROS = `0x${"0".repeat(512)}`;
const ONES = `0x${"f".repeat(512)}`;
/** Bits that no value of the tests sets alone: every third one. */
const EXTRA = hexToBigInt(`0x${"924".repeat(170)}92`);

const BLOOMS: Record<Bloom, (bloom: bigint) => string> = {
  zeros: () => ZEROS,
  ones: () => ONES,
  "extra bits": (bloom) => formatBloom(bloom | EXTRA),
  // One bit is left, as Ponder requests the logs of every block whose filter is zero.
  "missing bits": () => formatBloom(1n),
};

const formatBloom = (bloom: bigint) => `0x${bloom.toString(16).padStart(512, "0")}`;

/** Creates an interceptor for an RPC proxy. Changes of the behaviour take effect with the next request. */
export const simulateProvider =
  (target: string, behaviour: Behaviour) =>
  async (request: RpcRequest): Promise<RpcResponse | undefined> => {
    const interruption = behaviour.interrupt?.(request);
    if (interruption) return interruption;
    const { method } = request;
    if (method === "eth_getLogs") return answerLogs(target, behaviour, request);
    if (method === "eth_getBlockReceipts") return behaviour.lacksReceipts ? undefined : answerReceipts(target, request);
    if (method === "eth_getBlockByNumber" || method === "eth_getBlockByHash" || method === "eth_blockNumber") {
      return answerBlock(target, behaviour, request);
    }
    return undefined;
  };

const answerLogs = async (target: string, behaviour: Behaviour, { method, params }: RpcRequest) => {
  const { dialect, logsSince = 0, report } = behaviour;
  const refuse = (fault: ProviderFault, limit: { refuse: (from: number, to: number) => RpcResponse }) => {
    report?.(fault);
    return limit.refuse(from, to);
  };
  const filter = params[0] as Filter;
  const [from, to] = [Number(filter.fromBlock), Number(filter.toBlock)];
  const maxBlocks = behaviour.maxBlocks ?? dialect?.range?.blocks ?? Number.POSITIVE_INFINITY;
  if (to - from + 1 > maxBlocks && dialect?.range) return refuse("range limit", dialect.range);

  const answer = await askNode(target, { method, params });
  if (!("result" in answer)) return answer;
  const all = answer.result as RpcLog[];
  const kept = all.filter(({ blockNumber }) => Number(blockNumber) >= logsSince);
  const logs = behaviour.logIndex ? await readLogIndex(target, behaviour.logIndex, kept) : kept;
  const maxLogs = behaviour.maxLogs ?? dialect?.results?.logs ?? Number.POSITIVE_INFINITY;
  if (logs.length > maxLogs && dialect?.results) return refuse("result limit", dialect.results);
  const maxBytes = dialect?.size?.bytes ?? Number.POSITIVE_INFINITY;
  if (dialect?.size && JSON.stringify(logs).length > maxBytes) return refuse("size limit", dialect.size);
  if (kept.length < all.length) report?.("no old logs");
  if (behaviour.logIndex && logs.length !== kept.length) report?.(`log index: ${behaviour.logIndex.defect}`);
  return { result: logs };
};

/** Returns what a defective log index has of some logs. */
const readLogIndex = async (target: string, index: LogIndex, logs: readonly RpcLog[]): Promise<readonly RpcLog[]> => {
  const isWithin = ({ blockNumber }: RpcLog, first: number, last: number) =>
    Number(blockNumber) >= first && Number(blockNumber) <= last;
  switch (index.defect) {
    case "without every third log": {
      const isThird = ({ blockNumber, logIndex }: RpcLog) => (Number(blockNumber) + Number(logIndex)) % 3 === 0;
      return logs.filter((log) => !isThird(log) || !isWithin(log, index.first, index.last));
    }
    case "without logs":
      return logs.filter((log) => !isWithin(log, index.first, index.last));
    case "behind": {
      const indexed = (await readBlockNumber(target)) - index.blocks;
      return logs.filter((log) => isWithin(log, 0, indexed));
    }
    case "truncated":
      return logs.slice(0, index.logs);
    case "twice":
      return logs.flatMap((log) => [log, log]);
  }
};

const readBlockNumber = async (target: string): Promise<number> => {
  const answer = await askNode(target, { method: "eth_blockNumber", params: [] });
  return Number("result" in answer ? answer.result : 0);
};

/** Hardhat has no eth_getBlockReceipts. */
const answerReceipts = async (target: string, { params }: RpcRequest): Promise<RpcResponse> => {
  const answer = await askNode(target, { method: "eth_getBlockByHash", params: [params[0], false] });
  const block = "result" in answer ? (answer.result as RpcBlock | null) : null;
  if (!block) return { result: null };
  const receipts = await Promise.all(
    block.transactions.map((hash) => askNode(target, { method: "eth_getTransactionReceipt", params: [hash] })),
  );
  return { result: receipts.flatMap((receipt) => ("result" in receipt ? [receipt.result] : [])) };
};

const answerBlock = async (target: string, behaviour: Behaviour, { method, params }: RpcRequest) => {
  const { countBehind, bloom, report } = behaviour;
  const behind = countBehind?.() ?? 0;
  const newest = Math.max(0, (await readBlockNumber(target)) - behind);
  if (method === "eth_blockNumber") return { result: numberToHex(newest) };
  if (behind > 0 && params[0] === "latest") report?.("old head");
  const asked = params[0] === "latest" ? numberToHex(newest) : params[0];
  if (method === "eth_getBlockByNumber" && Number(asked) > newest) return { result: null };
  const answer = await askNode(target, { method, params: [asked, params[1]] });
  if (!bloom || !("result" in answer) || !answer.result) return answer;
  const block = answer.result as RpcBlock;
  report?.(`bloom: ${bloom}`);
  return { result: { ...block, logsBloom: BLOOMS[bloom](hexToBigInt(block.logsBloom)) } };
};

/** How one provider words its limits and failures. */
export type Dialect = {
  /** The largest range of eth_getLogs in blocks, and the refusal of a larger one. */
  range?: { blocks: number; refuse: (from: number, to: number) => RpcResponse };
  /** The largest number of logs in a response, and the refusal of more. */
  results?: { logs: number; refuse: (from: number, to: number) => RpcResponse };
  /** The refusal of a response that is too large. */
  size?: { bytes: number; refuse: (from: number, to: number) => RpcResponse };
  /** Refusals of a client that is too fast. */
  rateLimits?: readonly RpcResponse[];
  /** Refusals when the credits or the daily quota are used up. */
  quotas?: readonly RpcResponse[];
  /** The answer to a request for a block, or its logs, that the node does not have (any more, or yet). */
  unknownBlock?: RpcResponse;
  /** The answer to eth_getCode or eth_call at a block whose state the node has pruned. */
  prunedState?: RpcResponse;
};

const ALCHEMY_RATE =
  "Your app has exceeded its compute units per second capacity. If you have retries enabled, you can safely ignore this message. If not, check out https://docs.alchemy.com/reference/throughput";
const ALCHEMY_MONTH =
  "Monthly capacity limit exceeded. Visit https://dashboard.alchemy.com/settings/billing to upgrade your scaling policy for continued service.";
const ALCHEMY_SIZE =
  "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on the response size, or you can request any block range with a cap of 10K logs in the response. Based on your parameters and the response size limit, this block range should work:";
const ALCHEMY_TIMEOUT =
  "Query timeout exceeded. Consider reducing your block range. Based on your parameters and the response size limit, this block range should work:";
const INFURA_CREDITS =
  '{"jsonrpc":"2.0","id":1,"error":{"code":402,"event":-33000,"message":"Payment Required","details":"You have reached your daily credit limit. To continue making requests, upgrade your plan or purchase additional credits"}}';
const INFURA_KEY_LIMIT =
  '{"jsonrpc":"2.0","id":1,"error":{"code":429,"event":-33300,"message":"Too Many Requests","details":"You have surpassed your user-defined key throughput limit setting. To make more requests with this key, review key setting configurations."}}';
const INFURA_DASHBOARD = "https://infura.io/dashboard";
const QUICKNODE_RATE =
  "/second request limit reached - reduce calls per second or upgrade your account at quicknode.com";
const ONE_RPC_QUOTA =
  "You've reached the usage limit for your current plan. To continue with higher limits and uninterrupted access, please upgrade here: https://www.1rpc.io/#pricing";

const fail = (code: number, message: string, status = 200, data?: unknown): RpcResponse => ({
  error: { code, message, data },
  status,
});

const formatRange = (from: number, to: number) => `[${numberToHex(from)}, ${numberToHex(to)}]`;
const findMiddle = (from: number, to: number) => from + Math.floor((to - from) / 2);
const suggestRange = (from: number, blocks: number) =>
  `Based on your parameters, this block range should work: ${formatRange(from, from + blocks - 1)}`;

const TRIE_NODE = "missing trie node ef7df5d88cb1614dc3f143879a653cd90717ee42e967c5fabbcd7505a968f314 (path )";

/**
 * Each limit is that of the plan, or the setting, in the source. Of the sources, `owner/repository#number` is an issue
 * or pull request on GitHub, and `owner/repository:path` a file.
 */
export const dialects = {
  alchemy: {
    // Sources: jaxernst/lasso-rpc:lib/lasso/core/providers/adapters/alchemy.ex, latticexyz/mud#1522, xmtp/xmtpd#672,
    // argotorg/hevm#1058, ethers-io/ethers.js#5071, ethers-io/ethers.js#1162 (Retry-After).
    range: {
      blocks: 10,
      refuse: (from) =>
        fail(
          -32600,
          `Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range. ${suggestRange(from, 10)}. Upgrade to PAYG for expanded block range.`,
          400,
        ),
    },
    rateLimits: [
      {
        status: 429,
        headers: { "retry-after": "1" },
        body: JSON.stringify({ jsonrpc: "2.0", error: { code: 429, message: ALCHEMY_RATE } }),
      },
      fail(429, ALCHEMY_RATE),
    ],
    quotas: [fail(-32600, ALCHEMY_MONTH, 403), fail(429, ALCHEMY_MONTH, 429)],
  },
  /** The free tier until 2025. */
  alchemy500: {
    // Sources: boundless-xyz/boundless#838, risc0/risc0-ethereum#656.
    range: {
      blocks: 500,
      refuse: (from) =>
        fail(-32600, `You can make eth_getLogs requests with up to a 500 block range. ${suggestRange(from, 500)}`, 400),
    },
  },
  /** A paid plan. The source does not have the code of the 150 MB refusal. */
  alchemyPaid: {
    // Sources: ethers-io/ethers.js#4703, ponder-sh/ponder#409.
    results: {
      logs: 10_000,
      refuse: (from, to) => fail(-32602, `${ALCHEMY_SIZE} ${formatRange(from, findMiddle(from, to))}`),
    },
    size: { bytes: 150_000_000, refuse: () => fail(-32000, "Response size is larger than 150MB limit") },
  },
  /** Queries that take too long, seen at ranges over 2,000 blocks. */
  alchemyTimeout: {
    // Sources: worldcoin/signup-sequencer#274, nimiq/wallet#275.
    range: {
      blocks: 2_000,
      refuse: (from, to) => fail(-32000, `${ALCHEMY_TIMEOUT} ${formatRange(from, findMiddle(from, to))}`),
    },
  },
  infura: {
    // Sources: INFURA/infura#237, ethers-io/ethers.js#4703,
    // https://docs.metamask.io/services/how-to/avoid-rate-limiting/,
    // https://docs.metamask.io/developer-tools/dashboard/how-to/secure-an-api/set-rate-limits/,
    // status-im/status-go#4807, gochain/web3#180.
    range: { blocks: 10_000, refuse: (from, to) => fail(-32602, `range ${to - from} exceeds limit of 10000`) },
    results: {
      logs: 10_000,
      refuse: (from, to) =>
        fail(
          -32005,
          `query returned more than 10000 results. Try with this block range ${formatRange(from, findMiddle(from, to))}.`,
          200,
          { from: numberToHex(from), limit: 10_000, to: numberToHex(findMiddle(from, to)) },
        ),
    },
    rateLimits: [
      fail(-32005, "project ID request rate exceeded", 429, {
        see: "https://infura.io/docs/ethereum/jsonrpc/ratelimits",
        current_rps: 13.333,
        allowed_rps: 10,
        backoff_seconds: 30,
      }),
      fail(-32005, "exceeded project rate limit", 429, {
        rate: { allowed_rps: 5, backoff_seconds: 30, current_rps: 5.2 },
        see: INFURA_DASHBOARD,
      }),
      { status: 429, body: INFURA_KEY_LIMIT },
    ],
    quotas: [
      { status: 402, body: INFURA_CREDITS },
      fail(-32005, "daily request count exceeded, request rate limited", 429, {
        rate: { allowed_rps: 1, backoff_seconds: 0, current_rps: 2.2 },
        see: INFURA_DASHBOARD,
      }),
    ],
  },
  quicknode: {
    // Sources: OffchainLabs/arbitrum-sdk#609, https://www.quicknode.com/docs/ethereum/error-references,
    // erpc/erpc:thirdparty/quicknode.go, BobTheBuidler/dank_mids#684, latticexyz/mud#1522.
    range: { blocks: 10_000, refuse: () => fail(-32614, "eth_getLogs is limited to a 10,000 range", 413) },
    rateLimits: [
      fail(-32007, `50${QUICKNODE_RATE}`, 429),
      fail(-32007, `25${QUICKNODE_RATE}`),
      fail(-32012, "credits limited to 6000/sec"),
      fail(429, "The requests per second (RPS) of your requests are higher than your plan allows.", 429),
    ],
    quotas: [
      fail(-32003, "daily request limit reached - upgrade your account", 429),
      fail(-32003, "daily request limit reached - upgrade your account"),
    ],
    unknownBlock: fail(-32000, "header not found"),
  },
  drpc: {
    // Sources: foundry-rs/foundry#12687, jaxernst/lasso-rpc:lib/lasso/core/providers/adapters/drpc.ex,
    // enviodev/hyperindex#715.
    range: { blocks: 10_000, refuse: () => fail(35, "ranges over 10000 blocks are not supported on freetier", 400) },
    rateLimits: [fail(30, "Request timeout on the free tier, please upgrade your tier to the paid one", 408)],
    quotas: [{ status: 402 }],
    unknownBlock: fail(26, "Unknown block", 400),
    prunedState: fail(27, "Unknown state. First available state is 1", 400),
  },
  tenderly: {
    // Sources: bobanetwork/boba_legacy#827, fluencelabs/dev-rewards#20.
    range: {
      blocks: 2_000,
      refuse: (from, to) =>
        fail(-32602, "invalid params", 200, {
          error_id: "4ed94073-0317-4648-a167-107fba5f44b3",
          payload: `range ${to - from} is bigger than range limit 2000`,
        }),
    },
    rateLimits: [fail(-32005, "rate limit exceeded", 429)],
  },
  ankr: {
    // Sources: ponder-sh/ponder:packages/utils/src/getLogsRetryHelper.ts, AlphaWallet/alpha-wallet-android#2735.
    range: { blocks: 3_000, refuse: () => fail(-32600, "block range is too wide") },
  },
  /** Ankr before a Cosmos node. The brackets are no suggested range. */
  ankrTac: {
    // Sources: ponder-sh/ponder#1940.
    range: { blocks: 10_000, refuse: () => fail(-32000, "maximum [from, to] blocks distance: 10000") },
  },
  chainstack: {
    // Sources: ponder-sh/ponder:packages/utils/src/getLogsRetryHelper.ts, matter-labs/zksync-era#2974,
    // chainstack/dev-portal#288, BobTheBuidler/dank_mids:dank_mids/types.py, mysteriumnetwork/payments#129.
    range: {
      blocks: 100,
      refuse: () =>
        fail(
          -32602,
          "Block range limit exceeded. See more details at https://docs.chainstack.com/docs/limits#evm-range-limits",
        ),
    },
    rateLimits: [
      fail(-32005, "You've exceeded the RPS limit available on the current plan.", 429),
      { status: 429, body: "<html>\n<head><title>429 Too Many Requests</title></head>\n<body>\n</body>\n</html>\n" },
    ],
  },
  blockpi: {
    // Sources: foundry-rs/foundry#12687.
    range: {
      blocks: 1_024,
      refuse: () =>
        fail(
          -32602,
          "eth_getLogs is limited to 1024 block range. Please check the parameter requirements at https://docs.blockpi.io/documentations/api-reference",
        ),
    },
  },
  llamarpc: {
    // Sources: foundry-rs/foundry#12687.
    range: { blocks: 1_000, refuse: () => fail(-32603, "eth_getLogs range is too large, max is 1k blocks") },
  },
  publicnode: {
    // Sources: ponder-sh/ponder:packages/utils/src/_test/publicnode.test.ts.
    range: { blocks: 50_000, refuse: () => fail(-32701, "exceed maximum block range: 50000") },
    unknownBlock: fail(-32000, "header not found"),
  },
  oneRpc: {
    // Sources: jaxernst/lasso-rpc:lib/lasso/core/providers/adapters/1rpc.ex,
    // https://docs.1rpc.io/using-the-web3-api/errors.
    range: { blocks: 10_000, refuse: () => fail(-32602, "eth_getLogs is limited to 0 - 10000 blocks range") },
    size: { bytes: 2_097_152, refuse: () => fail(-32000, "response size should not greater than 2097152 bytes") },
    quotas: [fail(-32001, ONE_RPC_QUOTA)],
  },
  cloudflare: {
    // Sources: ponder-sh/ponder:packages/utils/src/_test/cloudflare.test.ts,
    // jaxernst/lasso-rpc:lib/lasso/core/providers/adapters/cloudflare.ex.
    range: {
      blocks: 800,
      refuse: () => fail(-32047, "Invalid eth_getLogs request. 'fromBlock'-'toBlock' range too large. Max range: 800"),
    },
    rateLimits: [fail(-32046, "Cannot fulfill request")],
  },
  /** The source has the code and the status, but no message. */
  theRpc: {
    // Sources: reown-com/blockchain-api#1102.
    rateLimits: [fail(-32029, "")],
  },
  polygonRpc: {
    // Sources: tradingstrategy-ai/web3-ethereum-defi:eth_defi/provider/fallback.py, 0xPolygon/bor#109.
    rateLimits: [
      fail(-32090, "Too many requests, reason: call rate limit exhausted, retry in 10s", 200, {
        trace_id: "442bbec5e0e72f6ead9472c52ee9ddb6",
      }),
    ],
    prunedState: fail(-32000, TRIE_NODE),
  },
  /** The proxy of OP Stack chains: Base, OP Mainnet, Mantle. Its limits are settings. */
  proxyd: {
    // Sources: ethereum-optimism/infra:proxyd/backend.go, base/node#368, okx/xlayer-erigon#434.
    range: { blocks: 10_000, refuse: () => fail(-32602, "block range greater than 10000 max", 400) },
    size: { bytes: 10_485_760, refuse: () => fail(-32020, "backend response too large", 500) },
    rateLimits: [
      fail(-32016, "over rate limit", 429),
      fail(-32024, "too many requests", 429),
      fail(-32011, "no backend is currently healthy to serve traffic", 503),
    ],
    unknownBlock: fail(-32019, "block is out of range", 400),
  },
  bscDataseed: {
    // Sources: AlphaWallet/alpha-wallet-android#2736, bnb-chain/docs-site#621.
    range: { blocks: 5_000, refuse: () => fail(-32000, "exceed maximum block range: 5000") },
    // Also the answer to every eth_getLogs where the method is disabled.
    rateLimits: [fail(-32005, "limit exceeded")],
  },
  arbitrum: {
    // Sources: OffchainLabs/nitro#4736, OffchainLabs/nitro#1093, MetaMask/eth-json-rpc-middleware#259.
    results: { logs: 10_000, refuse: () => fail(-32000, "logs matched by query exceeds limit of 10000") },
    rateLimits: [{ status: 429 }],
    prunedState: fail(-32000, `missing trie node ${"0".repeat(64)} (path ) <nil>`),
  },
  avalanche: {
    // Sources: ponder-sh/ponder:packages/utils/src/_test/avalanche.test.ts.
    range: {
      blocks: 2_048,
      refuse: (from, to) => fail(-32000, `requested too many blocks from ${from} to ${to}, maximum is set to 2048`),
    },
  },
  moonbeam: {
    // Sources: moonbeam-foundation/moonbeam#3250, ponder-sh/ponder:packages/utils/src/_test/moonriver.test.ts.
    range: { blocks: 1_024, refuse: () => fail(-32603, "block range is too wide (maximum 1024)") },
  },
  morph: {
    // Sources: enviodev/hyperindex#605.
    range: {
      blocks: 5_000,
      refuse: (from, to) =>
        fail(
          -32000,
          `block range is larger than max block range, block range = ${to - from + 1}, max block range = 5000`,
        ),
    },
  },
  zksync: {
    // Sources: ponder-sh/ponder#724, matter-labs/zksync-era:core/lib/web3_decl/src/error.rs.
    results: {
      logs: 10_000,
      refuse: (from, to) =>
        fail(
          -32602,
          `Query returned more than 10000 results. Try with this block range ${formatRange(from, findMiddle(from, to))}.`,
        ),
    },
    unknownBlock: fail(-32602, "Block with such an ID doesn't exist yet"),
    prunedState: fail(-32602, "Block with such an ID is pruned; the first retained block is 1000"),
  },
  /** With --rpc.rangelimit. */
  geth: {
    // Sources: ethereum/go-ethereum#33163, ethereum/go-ethereum#31939, ethereum/go-ethereum#20874,
    // ethers-io/ethers.js#1116.
    range: { blocks: 1_000, refuse: () => fail(-32602, "exceed maximum block range") },
    unknownBlock: fail(-32000, "unknown block"),
    prunedState: fail(-32000, TRIE_NODE),
  },
  nethermind: {
    // Sources: NethermindEth/nethermind:src/Nethermind/Nethermind.JsonRpc/Modules/Eth/EthRpcModule.cs,
    // equilibriumco/pathfinder#943, NethermindEth/nethermind#5228.
    results: { logs: 20_000, refuse: () => fail(-32005, "Too many logs requested. Max logs per response is 20000.") },
    unknownBlock: fail(-32001, "8633830 could not be found"),
    prunedState: fail(-32002, "No state available for block 9451636"),
  },
  besu: {
    // Sources:
    // besu-eth/besu:ethereum/api/src/main/java/org/hyperledger/besu/ethereum/api/jsonrpc/internal/response/RpcErrorType.java.
    range: { blocks: 5_000, refuse: () => fail(-32005, "Requested range exceeds maximum RPC range limit") },
    unknownBlock: fail(-32000, "Block not found"),
    prunedState: fail(-32000, "World state unavailable"),
  },
  erigon: {
    // Sources: erigontech/erigon#20424, erigontech/erigon#20784, erigontech/erigon#2770, erigontech/erigon#19339,
    // erigontech/erigon#13198.
    range: {
      blocks: 1_000,
      refuse: () => fail(-32602, "query block range exceeds server limit, narrow your filter: 1000"),
    },
    results: { logs: 20_000, refuse: () => fail(-32000, "query returns too many logs, narrow your filter: 20000") },
    unknownBlock: fail(-32000, "block not found 11185311"),
    prunedState: fail(
      -32000,
      "old data not available due to pruning: requested block 16999999, history is available from block 22000000",
    ),
  },
  reth: {
    // Sources: foundry-rs/foundry#12687, paradigmxyz/reth#23810, paradigmxyz/reth#21304, paradigmxyz/reth#22874,
    // paradigmxyz/reth#4092, paritytech/jsonrpsee:types/src/error.rs.
    range: { blocks: 100_000, refuse: () => fail(-32602, "query exceeds max block range 100000") },
    results: {
      logs: 20_000,
      // The suggested range can be the one that was refused.
      refuse: (from, to) => fail(-32602, `query exceeds max results 20000, retry with the range ${from}-${to}`),
    },
    size: { bytes: 160_000_000, refuse: () => fail(-32008, "Response is too big") },
    unknownBlock: fail(-32000, "header not found"),
    prunedState: fail(-32603, "State at block #11052984 is pruned"),
  },
} satisfies Record<string, Dialect>;
