import type { RpcResponse } from "./rpc-proxy.ts";

/** How one provider words its limits and failures. */
export type Dialect = {
  /** The public documents, issues or code that the wordings are from. */
  sources: readonly string[];
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
  /** The answer to eth_getLogs of blocks whose history the node has pruned, where it is an error and not []. */
  prunedLogs?: RpcResponse;
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
const QUICKNODE_RATE =
  "/second request limit reached - reduce calls per second or upgrade your account at quicknode.com";
const ONE_RPC_QUOTA =
  "You've reached the usage limit for your current plan. To continue with higher limits and uninterrupted access, please upgrade here: https://www.1rpc.io/#pricing";
const ERIGON_SEEK =
  "state transitaion failed: seek with txNum=1962853355 but data before txNum=2662500000 is not available: blockNum=16999999, txNum=1962853355, seek with txNum=1962853355 but data before txNum=2662500000 is not available";

const GITHUB = "https://github.com";
const PONDER = `${GITHUB}/ponder-sh/ponder/blob/main/packages/utils/src`;
const LASSO = `${GITHUB}/jaxernst/lasso-rpc/blob/main/lib/lasso/core/providers/adapters`;
const FOUNDRY = `${GITHUB}/foundry-rs/foundry/issues/12687`;

const fail = (code: number, message: string, status = 200): RpcResponse => ({ error: { code, message }, status });
const failWithData = (code: number, message: string, data: unknown, status = 200): RpcResponse => ({
  error: { code, message, data },
  status,
});

const toHex = (block: number) => `0x${block.toString(16)}`;
const toHexRange = (from: number, to: number) => `[${toHex(from)}, ${toHex(to)}]`;
const findMiddle = (from: number, to: number) => from + Math.floor((to - from) / 2);
const suggestRange = (from: number, blocks: number) =>
  `Based on your parameters, this block range should work: ${toHexRange(from, from + blocks - 1)}`;

const TRIE_NODE = "missing trie node ef7df5d88cb1614dc3f143879a653cd90717ee42e967c5fabbcd7505a968f314 (path )";

/** Each limit is that of the plan, or the setting, in the source. */
export const dialects = {
  alchemy: {
    sources: [
      `${LASSO}/alchemy.ex`,
      `${GITHUB}/latticexyz/mud/issues/1522`,
      `${GITHUB}/xmtp/xmtpd/issues/672`,
      `${GITHUB}/argotorg/hevm/issues/1058`,
      `${GITHUB}/ethers-io/ethers.js/issues/5071`,
      // Retry-After.
      `${GITHUB}/ethers-io/ethers.js/issues/1162`,
    ],
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
    sources: [`${GITHUB}/boundless-xyz/boundless/issues/838`, `${GITHUB}/risc0/risc0-ethereum/pull/656`],
    range: {
      blocks: 500,
      refuse: (from) =>
        fail(-32600, `You can make eth_getLogs requests with up to a 500 block range. ${suggestRange(from, 500)}`, 400),
    },
  },
  /** A paid plan. The source does not have the code of the 150 MB refusal. */
  alchemyPaid: {
    sources: [`${GITHUB}/ethers-io/ethers.js/issues/4703`, `${GITHUB}/ponder-sh/ponder/pull/409`],
    results: {
      logs: 10_000,
      refuse: (from, to) => fail(-32602, `${ALCHEMY_SIZE} ${toHexRange(from, findMiddle(from, to))}`),
    },
    size: { bytes: 150_000_000, refuse: () => fail(-32000, "Response size is larger than 150MB limit") },
  },
  /** Queries that take too long, seen at ranges over 2,000 blocks. */
  alchemyTimeout: {
    sources: [`${GITHUB}/worldcoin/signup-sequencer/issues/274`, `${GITHUB}/nimiq/wallet/pull/275`],
    range: {
      blocks: 2_000,
      refuse: (from, to) => fail(-32000, `${ALCHEMY_TIMEOUT} ${toHexRange(from, findMiddle(from, to))}`),
    },
  },
  infura: {
    sources: [
      `${GITHUB}/INFURA/infura/issues/237`,
      `${GITHUB}/ethers-io/ethers.js/issues/4703`,
      "https://docs.metamask.io/services/how-to/avoid-rate-limiting/",
      "https://docs.metamask.io/developer-tools/dashboard/how-to/secure-an-api/set-rate-limits/",
      `${GITHUB}/status-im/status-go/pull/4807`,
      `${GITHUB}/gochain/web3/issues/180`,
    ],
    range: { blocks: 10_000, refuse: (from, to) => fail(-32602, `range ${to - from} exceeds limit of 10000`) },
    results: {
      logs: 10_000,
      refuse: (from, to) =>
        failWithData(
          -32005,
          `query returned more than 10000 results. Try with this block range ${toHexRange(from, findMiddle(from, to))}.`,
          { from: toHex(from), limit: 10_000, to: toHex(findMiddle(from, to)) },
        ),
    },
    rateLimits: [
      failWithData(
        -32005,
        "project ID request rate exceeded",
        {
          see: "https://infura.io/docs/ethereum/jsonrpc/ratelimits",
          current_rps: 13.333,
          allowed_rps: 10,
          backoff_seconds: 30,
        },
        429,
      ),
      failWithData(
        -32005,
        "exceeded project rate limit",
        { rate: { allowed_rps: 5, backoff_seconds: 30, current_rps: 5.2 }, see: "https://infura.io/dashboard" },
        429,
      ),
      { status: 429, body: INFURA_KEY_LIMIT },
    ],
    quotas: [
      { status: 402, body: INFURA_CREDITS },
      failWithData(
        -32005,
        "daily request count exceeded, request rate limited",
        { rate: { allowed_rps: 1, backoff_seconds: 0, current_rps: 2.2 }, see: "https://infura.io/dashboard" },
        429,
      ),
    ],
  },
  quicknode: {
    sources: [
      `${GITHUB}/OffchainLabs/arbitrum-sdk/issues/609`,
      "https://www.quicknode.com/docs/ethereum/error-references",
      `${GITHUB}/erpc/erpc/blob/main/thirdparty/quicknode.go`,
      `${GITHUB}/BobTheBuidler/dank_mids/pull/684`,
      `${GITHUB}/latticexyz/mud/issues/1522`,
    ],
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
    sources: [FOUNDRY, `${LASSO}/drpc.ex`, `${GITHUB}/enviodev/hyperindex/issues/715`],
    range: { blocks: 10_000, refuse: () => fail(35, "ranges over 10000 blocks are not supported on freetier", 400) },
    rateLimits: [fail(30, "Request timeout on the free tier, please upgrade your tier to the paid one", 408)],
    quotas: [{ status: 402 }],
    unknownBlock: fail(26, "Unknown block", 400),
    prunedState: fail(27, "Unknown state. First available state is 1", 400),
  },
  tenderly: {
    sources: [`${GITHUB}/bobanetwork/boba_legacy/issues/827`, `${GITHUB}/fluencelabs/dev-rewards/issues/20`],
    range: {
      blocks: 2_000,
      refuse: (from, to) =>
        failWithData(-32602, "invalid params", {
          error_id: "4ed94073-0317-4648-a167-107fba5f44b3",
          payload: `range ${to - from} is bigger than range limit 2000`,
        }),
    },
    rateLimits: [fail(-32005, "rate limit exceeded", 429)],
  },
  ankr: {
    sources: [`${PONDER}/getLogsRetryHelper.ts`, `${GITHUB}/AlphaWallet/alpha-wallet-android/issues/2735`],
    range: { blocks: 3_000, refuse: () => fail(-32600, "block range is too wide") },
  },
  /** Ankr before a Cosmos node. The brackets are no suggested range. */
  ankrTac: {
    sources: [`${GITHUB}/ponder-sh/ponder/issues/1940`],
    range: { blocks: 10_000, refuse: () => fail(-32000, "maximum [from, to] blocks distance: 10000") },
  },
  chainstack: {
    sources: [
      `${PONDER}/getLogsRetryHelper.ts`,
      `${GITHUB}/matter-labs/zksync-era/pull/2974`,
      `${GITHUB}/chainstack/dev-portal/pull/288`,
      `${GITHUB}/BobTheBuidler/dank_mids/blob/master/dank_mids/types.py`,
      `${GITHUB}/mysteriumnetwork/payments/pull/129`,
    ],
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
    sources: [FOUNDRY],
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
    sources: [FOUNDRY],
    range: { blocks: 1_000, refuse: () => fail(-32603, "eth_getLogs range is too large, max is 1k blocks") },
  },
  publicnode: {
    sources: [`${PONDER}/_test/publicnode.test.ts`],
    range: { blocks: 50_000, refuse: () => fail(-32701, "exceed maximum block range: 50000") },
    unknownBlock: fail(-32000, "header not found"),
    prunedLogs: fail(
      -32602,
      "Archive requests require a personal token. Get one at: https://www.allnodes.com/publicnode",
    ),
  },
  oneRpc: {
    sources: [`${LASSO}/1rpc.ex`, "https://docs.1rpc.io/using-the-web3-api/errors"],
    range: { blocks: 10_000, refuse: () => fail(-32602, "eth_getLogs is limited to 0 - 10000 blocks range") },
    size: { bytes: 2_097_152, refuse: () => fail(-32000, "response size should not greater than 2097152 bytes") },
    quotas: [fail(-32001, ONE_RPC_QUOTA)],
  },
  cloudflare: {
    sources: [`${PONDER}/_test/cloudflare.test.ts`, `${LASSO}/cloudflare.ex`],
    range: {
      blocks: 800,
      refuse: () => fail(-32047, "Invalid eth_getLogs request. 'fromBlock'-'toBlock' range too large. Max range: 800"),
    },
    rateLimits: [fail(-32046, "Cannot fulfill request")],
  },
  /** The source has the code and the status, but no message. */
  theRpc: {
    sources: [`${GITHUB}/reown-com/blockchain-api/pull/1102`],
    rateLimits: [fail(-32029, "")],
  },
  polygonRpc: {
    sources: [
      `${GITHUB}/tradingstrategy-ai/web3-ethereum-defi/blob/master/eth_defi/provider/fallback.py`,
      `${GITHUB}/0xPolygon/bor/issues/109`,
    ],
    rateLimits: [
      failWithData(-32090, "Too many requests, reason: call rate limit exhausted, retry in 10s", {
        trace_id: "442bbec5e0e72f6ead9472c52ee9ddb6",
      }),
    ],
    prunedState: fail(-32000, TRIE_NODE),
  },
  /** The proxy of OP Stack chains: Base, OP Mainnet, Mantle. Its limits are settings. */
  proxyd: {
    sources: [
      `${GITHUB}/ethereum-optimism/infra/blob/main/proxyd/backend.go`,
      `${GITHUB}/base/node/issues/368`,
      `${GITHUB}/okx/xlayer-erigon/issues/434`,
    ],
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
    sources: [`${GITHUB}/AlphaWallet/alpha-wallet-android/issues/2736`, `${GITHUB}/bnb-chain/docs-site/issues/621`],
    range: { blocks: 5_000, refuse: () => fail(-32000, "exceed maximum block range: 5000") },
    // Also the answer to every eth_getLogs where the method is disabled.
    rateLimits: [fail(-32005, "limit exceeded")],
  },
  arbitrum: {
    sources: [
      `${GITHUB}/OffchainLabs/nitro/issues/4736`,
      `${GITHUB}/OffchainLabs/nitro/issues/1093`,
      `${GITHUB}/MetaMask/eth-json-rpc-middleware/pull/259`,
    ],
    results: { logs: 10_000, refuse: () => fail(-32000, "logs matched by query exceeds limit of 10000") },
    rateLimits: [{ status: 429 }],
    prunedState: fail(-32000, `missing trie node ${"0".repeat(64)} (path ) <nil>`),
  },
  avalanche: {
    sources: [`${PONDER}/_test/avalanche.test.ts`],
    range: {
      blocks: 2_048,
      refuse: (from, to) => fail(-32000, `requested too many blocks from ${from} to ${to}, maximum is set to 2048`),
    },
  },
  moonbeam: {
    sources: [`${GITHUB}/moonbeam-foundation/moonbeam/pull/3250`, `${PONDER}/_test/moonriver.test.ts`],
    range: { blocks: 1_024, refuse: () => fail(-32603, "block range is too wide (maximum 1024)") },
  },
  morph: {
    sources: [`${GITHUB}/enviodev/hyperindex/issues/605`],
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
    sources: [
      `${GITHUB}/ponder-sh/ponder/issues/724`,
      `${GITHUB}/matter-labs/zksync-era/blob/main/core/lib/web3_decl/src/error.rs`,
    ],
    results: {
      logs: 10_000,
      refuse: (from, to) =>
        fail(
          -32602,
          `Query returned more than 10000 results. Try with this block range ${toHexRange(from, findMiddle(from, to))}.`,
        ),
    },
    unknownBlock: fail(-32602, "Block with such an ID doesn't exist yet"),
    prunedState: fail(-32602, "Block with such an ID is pruned; the first retained block is 1000"),
  },
  /** With --rpc.rangelimit. */
  geth: {
    sources: [
      `${GITHUB}/ethereum/go-ethereum/pull/33163`,
      `${GITHUB}/ethereum/go-ethereum/issues/31939`,
      `${GITHUB}/ethereum/go-ethereum/issues/20874`,
      `${GITHUB}/ethers-io/ethers.js/issues/1116`,
    ],
    range: { blocks: 1_000, refuse: () => fail(-32602, "exceed maximum block range") },
    unknownBlock: fail(-32000, "unknown block"),
    prunedState: fail(-32000, TRIE_NODE),
    prunedLogs: fail(4444, "pruned history unavailable"),
  },
  nethermind: {
    sources: [
      `${GITHUB}/NethermindEth/nethermind/blob/master/src/Nethermind/Nethermind.JsonRpc/Modules/Eth/EthRpcModule.cs`,
      `${GITHUB}/equilibriumco/pathfinder/pull/943`,
      `${GITHUB}/NethermindEth/nethermind/issues/5228`,
    ],
    results: {
      logs: 20_000,
      refuse: () => fail(-32005, "Too many logs requested. Max logs per response is 20000."),
    },
    unknownBlock: fail(-32001, "8633830 could not be found"),
    prunedState: fail(-32002, "No state available for block 9451636"),
    prunedLogs: fail(-32001, "Receipt not available for 'From' block '1273020'."),
  },
  besu: {
    sources: [
      `${GITHUB}/besu-eth/besu/blob/main/ethereum/api/src/main/java/org/hyperledger/besu/ethereum/api/jsonrpc/internal/response/RpcErrorType.java`,
    ],
    range: { blocks: 5_000, refuse: () => fail(-32005, "Requested range exceeds maximum RPC range limit") },
    unknownBlock: fail(-32000, "Block not found"),
    prunedState: fail(-32000, "World state unavailable"),
    prunedLogs: fail(4444, "Pruned history unavailable"),
  },
  erigon: {
    sources: [
      `${GITHUB}/erigontech/erigon/pull/20424`,
      `${GITHUB}/erigontech/erigon/pull/20784`,
      `${GITHUB}/erigontech/erigon/issues/2770`,
      `${GITHUB}/erigontech/erigon/pull/19339`,
      `${GITHUB}/erigontech/erigon/issues/13198`,
    ],
    range: {
      blocks: 1_000,
      refuse: () => fail(-32602, "query block range exceeds server limit, narrow your filter: 1000"),
    },
    results: {
      logs: 20_000,
      refuse: () => fail(-32000, "query returns too many logs, narrow your filter: 20000"),
    },
    unknownBlock: fail(-32000, "block not found 11185311"),
    prunedState: fail(
      -32000,
      "old data not available due to pruning: requested block 16999999, history is available from block 22000000",
    ),
    prunedLogs: fail(-32000, ERIGON_SEEK),
  },
  reth: {
    sources: [
      FOUNDRY,
      `${GITHUB}/paradigmxyz/reth/issues/23810`,
      `${GITHUB}/paradigmxyz/reth/pull/21304`,
      `${GITHUB}/paradigmxyz/reth/pull/22874`,
      `${GITHUB}/paradigmxyz/reth/pull/4092`,
      `${GITHUB}/paritytech/jsonrpsee/blob/master/types/src/error.rs`,
    ],
    range: { blocks: 100_000, refuse: () => fail(-32602, "query exceeds max block range 100000") },
    results: {
      logs: 20_000,
      // The suggested range can be the one that was refused.
      refuse: (from, to) => fail(-32602, `query exceeds max results 20000, retry with the range ${from}-${to}`),
    },
    size: { bytes: 160_000_000, refuse: () => fail(-32008, "Response is too big") },
    unknownBlock: fail(-32000, "header not found"),
    prunedState: fail(-32603, "State at block #11052984 is pruned"),
    prunedLogs: fail(4444, "pruned history unavailable"),
  },
} satisfies Record<string, Dialect>;
