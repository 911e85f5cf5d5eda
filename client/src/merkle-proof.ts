import { fromRlp, keccak256 } from "viem";
import type { Hex } from "./questions.ts";

/** A node of a trie, decoded: a byte string, or a list of nodes. */
type Node = Hex | readonly Node[];

/** The root of a trie without keys: the hash of an empty string. */
const EMPTY_ROOT = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421";

/**
 * Reads a key of a Merkle-Patricia trie from its proof, as `eth_getProof` returns it: the nodes from the root on. Each
 * node is held against the hash that leads to it before it is decoded.
 * @returns the value, or null if the proof shows that the trie does not have the key
 * @throws if the nodes are no proof of this key: a wrong, a missing, or another node too many
 */
export const readMerkleProof = (root: Hex, key: Hex, proof: readonly Hex[]): Hex | null => {
  if (root === EMPTY_ROOT && proof.length === 0) return null;
  const path = keccak256(key).slice(2);
  let used = 0;
  let depth = 0;
  let next: Node = root;
  const finish = (value: Hex | null) => {
    if (used !== proof.length) throw new Error("The proof has more nodes than it needs.");
    return value;
  };
  for (;;) {
    // Nodes of less than 32 bytes are a part of the one above them.
    const node: Node = typeof next === "string" ? decode(next, proof[used++]) : next;
    if (node === "0x") return finish(null);
    if (typeof node === "string") throw new Error("A node of the proof is not a list.");
    let child: Node | undefined;
    if (node.length === 17) {
      child = node[Number.parseInt(path[depth++] ?? "", 16)];
    } else {
      const { part, isLeaf } = readPart(node[0]);
      const isOnPath = path.startsWith(part, depth);
      depth += part.length;
      child = node[1];
      if (!isOnPath || (isLeaf && depth !== path.length)) return finish(null);
      if (isLeaf && typeof child === "string") return finish(child);
    }
    if (child === undefined) throw new Error("A node of the proof is incomplete.");
    if (child === "0x") return finish(null);
    next = child;
  }
};

const decode = (hash: Hex, encoded: Hex | undefined): Node => {
  if (encoded === undefined) throw new Error("The proof lacks a node.");
  if (keccak256(encoded) !== hash) throw new Error("A node of the proof is not the one of its trie.");
  return fromRlp(encoded, "hex");
};

/** Reads the part of a path that a leaf or an extension has. Its first digit tells which, and whether a digit follows. */
const readPart = (encoded: Node | undefined): { part: string; isLeaf: boolean } => {
  const [, flag, rest] = /^0x([0-3])([0-9a-f]+)$/.exec(String(encoded)) ?? [];
  if (flag === undefined || rest === undefined) throw new Error("A node of the proof has no path.");
  return { part: Number(flag) % 2 === 1 ? rest : rest.slice(1), isLeaf: Number(flag) >= 2 };
};
