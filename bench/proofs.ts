import { type Address, createPublicClient, type Hex, http, keccak256 } from "viem";
import { type Proof, verifyProof } from "../client/src/proof.ts";
import { askAll, delegate, untilIndexed } from "./client.ts";
import { compare } from "./comparison.ts";
import { CHAIN_ID, withLiveStack } from "./live-stack.ts";
import type { Case } from "./report.ts";
import { median } from "./rounds.ts";
import { createKey } from "./servers.ts";

// Measures proofs: of the service, beside the node's own eth_getProof, and verified, beside the hashes of their nodes.

type Options = { serverUrl: string; checks: number; rounds: number; log: (message: string) => void };

/** The service makes so many for a caller at a time. */
const IN_FLIGHT = 4;
/** A local chain takes long for a proof. */
const SHARE_OF_CHECKS = 20;

export const measureProofs = ({ serverUrl, checks, rounds, log }: Options): Promise<Case[]> =>
  withLiveStack({ serverUrl, name: "proofs", log }, async ({ chain, apiUrl, databaseUrl }) => {
    const pairs = await delegate(chain, checks / SHARE_OF_CHECKS);
    const headers = { "X-API-KEY": await createKey(databaseUrl) };
    const node = createPublicClient({ transport: http(chain.url) });
    const prove = async ({ delegate, vault }: { delegate: Address; vault: Address }): Promise<Proof> => {
      const query = new URLSearchParams({ delegate, vault, chainId: String(CHAIN_ID), proof: "true" });
      const response = await fetch(`${apiUrl}/registry/v2/check/all?${query}`, { headers });
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as Proof;
    };
    const perSecond = { first: [], again: [], node: [], verified: [], hashed: [] } as Record<string, number[]>;
    const measure = async <Value>(name: string, run: () => Value | Promise<Value>): Promise<Value> => {
      log(`${pairs.length} proofs, ${name}`);
      const startedAt = performance.now();
      const value = await run();
      perSecond[name]?.push((pairs.length * 1000) / (performance.now() - startedAt));
      return value;
    };
    let bytes = 0;
    for (let round = 0; round <= rounds; round++) {
      // Another block: the service remembers nothing of it.
      await chain.client.mine({ blocks: 1 });
      await untilIndexed(chain, apiUrl);
      const proofs = await measure("first", () => askAll(pairs, prove, IN_FLIGHT));
      await measure("again", () => askAll(pairs, prove, IN_FLIGHT));
      const requests = proofs.map(({ account, storage, block }) => ({
        address: account.address as Address,
        storageKeys: storage.map(({ slot }) => slot as Hex),
        blockNumber: BigInt(block.number),
      }));
      await measure("node", () => askAll(requests, (request) => node.getProof(request), IN_FLIGHT));
      await measure("verified", () => {
        for (const proof of proofs) verifyProof(proof, { hash: proof.block.hash as Hex, chainId: CHAIN_ID });
      });
      const nodes = proofs.map((proof) => [...proof.account.proof, ...proof.storage.flatMap((slot) => slot.proof)]);
      await measure("hashed", () => {
        for (const hex of nodes.flat()) keccak256(hex as Hex);
      });
      bytes = median(proofs.map((proof) => JSON.stringify(proof).length));
    }
    // The first round warms up.
    const rate = (name: string) => median((perSecond[name] ?? []).slice(1));
    const [first, again, ofNode, verified, hashed] = ["first", "again", "node", "verified", "hashed"].map(rate) as [
      number,
      number,
      number,
      number,
      number,
    ];
    const unit = "proofs/s";
    return [
      { name: "eth_getProof of the same slots", figures: { requestsPerSecond: ofNode }, comparisons: [] },
      {
        name: "proofs of a new block",
        figures: { requestsPerSecond: first },
        comparisons: [
          compare({ baseline: "eth_getProof", unit, ours: first, theirs: ofNode, target: { atLeast: 0.5 } }),
        ],
        remark: `${bytes.toLocaleString("en")} bytes each`,
      },
      {
        name: "the same again, remembered",
        figures: { requestsPerSecond: again },
        comparisons: [compare({ baseline: "a new block", unit, ours: again, theirs: first, target: { atLeast: 2 } })],
      },
      { name: "keccak of the nodes of a proof", figures: { requestsPerSecond: hashed }, comparisons: [] },
      {
        name: "proofs verified by the client",
        figures: { requestsPerSecond: verified },
        comparisons: [compare({ baseline: "keccak", unit, ours: verified, theirs: hashed, target: { atLeast: 0.4 } })],
      },
    ];
  });
