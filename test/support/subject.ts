import { expect } from "vitest";
import { compileContracts } from "../../sandbox/contracts.ts";
import type { Queries } from "./index-state.ts";
import type { Random } from "./random.ts";
import { RandomChain } from "./random-chain.ts";
import { createChain } from "./setup.ts";
import { createWorld } from "./world.ts";

/** A random chain until the test is over, with what is expected of it. */
export class Subject extends RandomChain {
  static async create(chainId: number, random: Random): Promise<Subject> {
    const local = await createChain(chainId);
    return new Subject(local, await createWorld(local, await compileContracts()), random);
  }

  async expectSameAnswers(databaseUrl: string, schema: string, blocksBack: readonly number[] = []): Promise<void> {
    expect(await this.compareIndex(databaseUrl, schema, { blocksBack })).toEqual([]);
  }

  async expectSameAnswersOverHttp(apiUrl: string, key?: string, block?: bigint): Promise<void> {
    expect(await this.compareHttp(apiUrl, { ...(key && { key }), ...(block && { block }) })).toEqual([]);
  }

  async expectSameAnswersInSql(databaseUrl: string, blocksBack: readonly number[] = []): Promise<void> {
    expect(await this.compareSql(databaseUrl, { blocksBack })).toEqual([]);
  }

  async expectSameDigests(database: Queries, blocksBack: readonly number[] = []): Promise<void> {
    expect(await this.compareDigests(database, blocksBack)).toEqual([]);
  }
}
