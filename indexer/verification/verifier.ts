import { networks } from "../../registry/networks.ts";
import type { ChainPlan, IndexPlan } from "../plan.ts";
import type { Heads } from "../shards/heads.ts";
import { type IndexerDatabase, MAX_UNPROVEN_BLOCKS } from "../shards/index-database.ts";
import { isPonderReady } from "../shards/ponder-tables.ts";
import type { IndexProgress } from "../shards/progress.ts";
import { readContradicted, readVerification, saveVerified } from "../shards/verification-state.ts";
import { RegistryState } from "./registry-state.ts";
import { ChainRepair } from "./repair-chain.ts";
import { ChainVerification } from "./verify-chain.ts";

type Options = {
  schema: string;
  plan: IndexPlan;
  database: IndexerDatabase;
  /** Requests to a chain for the wallets that do not change. */
  requestsPerDay: number;
  log: (message: string) => void;
};

/** More blocks than Ponder indexes again after a restart: those that it has not stored as final, twice 240 at most. */
const MAX_REPEATED_BLOCKS = 512;

type Chain = { isPartial: boolean; isProven: boolean; verification: ChainVerification; repair: ChainRepair };

/** Compares an index with the registries before it is served and while it is, and repairs chains that differ. */
export class Verifier {
  readonly #options: Options;
  readonly #chains: ReadonlyMap<number, Chain>;
  /** When the API found the last wallet that it has handed over, in seconds. */
  #contradictedAt = 0;

  constructor(options: Options) {
    this.#options = options;
    const { plan, schema, database, requestsPerDay, log } = options;
    const create = (chain: ChainPlan): Chain => {
      const shared = { schema, chain, state: new RegistryState(chain), connection: database.connection };
      return {
        isPartial: startsLate(chain),
        isProven: false,
        verification: new ChainVerification({ ...shared, requestsPerDay, log }),
        repair: new ChainRepair({ ...shared, log }),
      };
    };
    this.#chains = new Map(plan.chains.map((chain) => [chain.chainId, create(chain)]));
  }

  /** True once each chain is proven, or still differs after repairs: an index does not wait for such a chain. */
  get isSettled(): boolean {
    return [...this.#chains.values()].every(({ isProven, repair }) => isProven || repair.hasFailed);
  }

  /**
   * The plan for a run of Ponder, with what repairs have found out about endpoints and blocks. An index that is not far
   * behind is served without a new comparison: the logs that it lacks are proven block by block, like those of live ones.
   */
  planRun(heads: Heads, progress: readonly IndexProgress[]): IndexPlan {
    const { plan } = this.#options;
    const chains = plan.chains.map((planned) => {
      const chain = this.#chains.get(planned.chainId)?.repair.chain ?? planned;
      const newest = Number(heads.get(chain.chainId)?.number ?? 0);
      const reached = progress.find(({ chainId }) => chainId === chain.chainId)?.reached ?? 0;
      if (reached === 0 || newest - reached > MAX_UNPROVEN_BLOCKS) return chain;
      const catchUp = { first: reached - MAX_REPEATED_BLOCKS, last: newest };
      return { ...chain, provenRanges: [...(chain.provenRanges ?? []), catchUp] };
    });
    return { ...plan, chains };
  }

  /**
   * While Ponder runs: starts the comparisons that are due. They end with the signal.
   * @returns a reason to restart Ponder: the next start repairs a chain
   */
  async update(now: number, signal: AbortSignal): Promise<string | undefined> {
    const { schema, database, plan } = this.#options;
    if (!(await isPonderReady(database.connection, schema))) return undefined;
    for (const { chainId, wallet, block, at } of await readContradicted(database.connection, this.#contradictedAt)) {
      this.#chains.get(chainId)?.verification.contradicted.set(wallet, block);
      this.#contradictedAt = at;
    }
    for (const state of await readVerification(database.connection, schema)) {
      const chain = this.#chains.get(state.chainId);
      if (!chain) continue;
      chain.isProven = state.verified !== null;
      if (chain.isProven) chain.repair.succeed();
      if (chain.isPartial) {
        chain.verification.contradicted.clear();
        await this.#acceptPartial(state.chainId, chain, state.indexed);
      }
      // Not awaited: an RPC that does not answer delays only its own chain.
      else chain.verification.update(state, now, signal);
    }
    const differing = plan.chains.find(({ chainId }) => this.#isRepairDue(this.#chains.get(chainId), now));
    return differing && `${differing.name}: the index differs from the registries.`;
  }

  /** Before Ponder starts: removes what differs, and finds out how to fetch it again. */
  async repair(now: number): Promise<void> {
    const { schema, database } = this.#options;
    for (const chain of this.#chains.values()) {
      const { difference } = chain.verification;
      if (!difference || !this.#isRepairDue(chain, now)) continue;
      await database.rewindChain(schema, await chain.repair.prepare(difference, now));
      chain.verification.difference = undefined;
    }
  }

  #isRepairDue(chain: Chain | undefined, now: number): boolean {
    return chain?.verification.difference !== undefined && chain.repair.isDue(now);
  }

  async #acceptPartial(chainId: number, { isProven, repair }: Chain, block: number): Promise<void> {
    if (isProven) return;
    const { schema, database, log } = this.#options;
    log(
      `${repair.chain.name}: the index is not compared with the registries: START_BLOCK_${chainId} leaves out delegations.`,
    );
    await saveVerified(database.connection, schema, { chainId, block, wallets: 0 });
  }
}

/** True if the operator has chosen to leave out blocks that can have delegations. */
const startsLate = ({ chainId, v1, v2 }: ChainPlan): boolean => {
  const network = networks.get(chainId);
  const isLate = (planned: ChainPlan["v1"], deployed: number | null | undefined) =>
    planned !== null && typeof deployed === "number" && planned.startBlock > deployed;
  return isLate(v1, network?.v1?.startBlock) || isLate(v2, network?.v2?.startBlock);
};
