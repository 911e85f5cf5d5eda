import fc from "fast-check";
import { type Address, concatHex, type Hex, keccak256, maxUint256, numberToHex } from "viem";
import { afterAll, beforeAll, expect, test } from "vitest";
import { proveChecks } from "../../api/proofs/prove-checks.ts";
import { StateReader } from "../../api/proofs/state-reader.ts";
import { type Proof, verifyProof } from "../../client/src/proof.ts";
import { NoRegistryError } from "../../client/src/proven-state.ts";
import { type Check, type Question, toQuestion } from "../../client/src/questions.ts";
import { toBytes32 } from "../../client/src/registries.ts";
import { RegistryError } from "../../client/src/registry-error.ts";
import { decide } from "../../client/src/slots.ts";
import { formatQuestion, listQuestions, type WorldQuestion } from "../support/answers.ts";
import { PROPERTY_RUNS, Random } from "../support/random.ts";
import { ComparedChain } from "../support/random-chain.ts";

// Proofs of a random chain: all that is true can be proven, and nothing else.

const CHAIN = 1;
/** Each block is another world. */
const BLOCKS = 40 * (process.env.NIGHTLY ? 10 : 1);
const PROOFS = process.env.NIGHTLY ? PROPERTY_RUNS : 120;
/** Proofs of one block that share their requests. */
const TOGETHER = 20;

let subject: ComparedChain;
let state: StateReader;
let questions: readonly WorldQuestion[];
let last: bigint;

beforeAll(async () => {
  subject = await ComparedChain.launch(CHAIN, new Random(34));
  await subject.mineRandomBlocks(BLOCKS);
  last = await subject.local.client.getBlockNumber();
  state = new StateReader(new Map([[CHAIN, [subject.local.url]]]));
  questions = listQuestions(subject.world);
});
afterAll(() => subject?.local.stop());

const lower = (address: Address) => address.toLowerCase() as Address;

const toAsked = (question: WorldQuestion): Question => {
  const asked = toQuestion({ ...question, chainId: CHAIN } as Check & { chainId: number });
  return {
    ...asked,
    delegate: lower(asked.delegate),
    vault: lower(asked.vault),
    ...(asked.contract && { contract: lower(asked.contract) }),
    ...(asked.rights !== undefined && { rights: toBytes32(asked.rights) }),
  };
};

const registryOf = ({ registry }: { registry: "v1" | "v2" }) => lower(subject.world[registry]);

const readBlock = async (number: bigint) => {
  const { hash } = await subject.local.client.getBlock({ blockNumber: number });
  return { number, hash };
};

const proveAll = async (all: readonly WorldQuestion[], block: bigint, registry: Address) => {
  const proven = await state.readBlock(CHAIN, block, await readBlock(last));
  return proveChecks(state, all.map(toAsked), registry, proven);
};

const prove = async (question: WorldQuestion, block: bigint, registry = registryOf(question)) =>
  (await proveAll([question], block, registry))[0] as Proof;

const nameOf = ({ registry, check }: WorldQuestion) => `${registry} ${check}`;

/** Questions by check. */
const byCheck = () =>
  [...new Set(questions.map(nameOf))].map((name) => questions.filter((question) => nameOf(question) === name));

/** Each check as often as the others. */
const anyQuestion = () => fc.oneof(...byCheck().map((same) => fc.constantFrom(...same)));

/** Of each check, a question that is true in the last block, and one that is false. */
const trueAndFalse = async (): Promise<[WorldQuestion, bigint][]> => {
  const answers = await subject.askRegistries(last, questions);
  return byCheck().flatMap((same) => {
    const isTrue = (question: WorldQuestion) => !["false", "0"].includes(answers.get(formatQuestion(question)) ?? "");
    const found = [same.find(isTrue), same.find((question) => !isTrue(question))];
    return found.map((question): [WorldQuestion, bigint] => {
      if (!question) throw new Error(`${nameOf(same[0] as WorldQuestion)} has one answer only.`);
      return [question, last];
    });
  });
};

const anyBlock = () => fc.bigInt({ min: 0n, max: BigInt(BLOCKS - 1) }).map((back) => last - back);

/** Results of every kind. */
const OPPOSITES = [true, false, "0", String(maxUint256)];

const toWord = (value: bigint): Hex => numberToHex(value, { size: 32 });

const expectRefused = (proof: unknown, hash: Hex, why?: string, check?: Check) => {
  expect(() => verifyProof(proof as Proof, { hash, chainId: CHAIN, check }), why).toThrow(RegistryError);
};

test("every answer of every world can be proven, and the proof says what the registry says", async () => {
  const examples = await trueAndFalse();
  expect(examples).toHaveLength(16);
  const results = new Map<string, number>();
  const check = async (asked: readonly WorldQuestion[], block: bigint) => {
    const { hash, timestamp } = await subject.local.client.getBlock({ blockNumber: block });
    const answers = await subject.askRegistries(block, asked);
    for (const registry of ["v1", "v2"] as const) {
      const same = asked.filter((question) => question.registry === registry);
      const proofs = same.length > 0 ? await proveAll(same, block, lower(subject.world[registry])) : [];
      for (const [place, question] of same.entries()) {
        // As a file.
        const kept = JSON.parse(JSON.stringify(proofs[place]));
        const proven = verifyProof(kept, { hash, check: question as Check });
        const answer = answers.get(formatQuestion(question)) ?? "";
        expect([String(proven.value), String(kept.result)]).toEqual([answer, answer]);
        expect(proven.block).toEqual({ number: block, hash, timestamp });
        const kind = /^\d+$/.test(answer) && answer !== "0" ? "amount" : answer;
        results.set(kind, (results.get(kind) ?? 0) + 1);
      }
    }
  };
  await check(
    examples.map(([question]) => question),
    last,
  );
  const together = fc.uniqueArray(anyQuestion(), {
    minLength: TOGETHER,
    maxLength: TOGETHER,
    selector: formatQuestion,
  });
  await fc.assert(fc.asyncProperty(together, anyBlock(), check), { numRuns: PROOFS / TOGETHER });
  console.log(`Proven and verified: ${[...results].map(([kind, count]) => `${count} × ${kind}`).join(", ")}.`);
});

test("a proof with any other byte is refused", async () => {
  const proofs = await sampleProofs(24);
  fc.assert(
    fc.property(fc.nat(), fc.nat(), fc.integer({ min: 1, max: 255 }), (which, where, bits) => {
      const { proof, hash, question } = proofs[which % proofs.length] as Sample;
      const texts = listBytes(proof);
      const length = texts.reduce((sum, { text }) => sum + (text.length - 2) / 2, 0);
      let place = where % length;
      const found = texts.find(({ text }) => {
        const bytes = (text.length - 2) / 2;
        if (place < bytes) return true;
        place -= bytes;
        return false;
      });
      if (!found) throw new Error("There is no such byte.");
      const at = 2 + place * 2;
      const byte = (Number.parseInt(found.text.slice(at, at + 2), 16) ^ bits).toString(16).padStart(2, "0");
      const changed = found.text.slice(0, at) + byte + found.text.slice(at + 2);
      // An answer for full rights may prove the same for other rights: that question was not asked.
      expectRefused(found.replace(changed), hash, found.path, question as Check);
    }),
    { numRuns: PROPERTY_RUNS },
  );
});

test("a proof of another result, block, network or check is refused, and so is one that lacks anything", async () => {
  for (const { proof, hash } of await sampleProofs(16)) {
    const { block, account, storage } = proof;
    for (const result of [true, false, "0", "1", "250", `${2n ** 256n - 1n}`, 0, null, undefined, "true"]) {
      if (result !== proof.result) expectRefused({ ...proof, result }, hash, `result ${result}`);
    }
    for (const chainId of [0, 137, 324, "1"]) expectRefused({ ...proof, chainId }, hash, `chain ${chainId}`);
    expect(() => verifyProof(proof, { hash, chainId: 137 })).toThrow(RegistryError);
    for (const registry of ["v1", "v2", "v3", "__proto__", "constructor"]) {
      if (registry !== proof.registry) expectRefused({ ...proof, registry }, hash, registry);
    }
    for (const check of ["all", "contract", "token", "erc721", "erc20", "erc1155", "constructor", "__proto__", ""]) {
      if (check !== proof.check) expectRefused({ ...proof, check }, hash, check);
    }
    expectRefused({ ...proof, block: { ...block, number: block.number + 1 } }, hash, "number");
    for (const name of Object.keys(proof)) expectRefused({ ...proof, [name]: undefined }, hash, name);
    for (const name of Object.keys(proof.parameters)) {
      const { [name]: _, ...parameters } = proof.parameters;
      expectRefused({ ...proof, parameters }, hash, name);
    }
    expectRefused({ ...proof, parameters: { ...proof.parameters, more: "0x00" } }, hash, "more parameters");
    expectRefused({ ...proof, storage: [] }, hash, "no slots");
    expectRefused({ ...proof, account: { ...account, proof: account.proof.slice(1) } }, hash, "no root");
    expectRefused({ ...proof, account: { ...account, proof: account.proof.slice(0, -1) } }, hash, "no account");
    expectRefused({ ...proof, account: { ...account, proof: [...account.proof, "0x80"] } }, hash, "one node more");
    storage.forEach((slot, place) => {
      expectRefused({ ...proof, storage: storage.toSpliced(place, 1) }, hash, `without slot ${place}`);
      expectRefused({ ...proof, storage: [...storage, slot] }, hash, `slot ${place} twice`);
      const shorter = { ...slot, proof: slot.proof.slice(0, -1) };
      expectRefused({ ...proof, storage: storage.with(place, shorter) }, hash, "a node less");
      const longer = { ...slot, proof: [...slot.proof, slot.proof[0] ?? "0x80"] };
      expectRefused({ ...proof, storage: storage.with(place, longer) }, hash, "a node more");
      // An inclusion is no exclusion, nor the other way round.
      const value = toWord(BigInt(slot.value) === 0n ? 1n : 0n);
      for (const result of [proof.result, ...OPPOSITES]) {
        const turned = { ...proof, result, storage: storage.with(place, { ...slot, value }) };
        expectRefused(turned, hash, "another value");
        expectRefused({ ...turned, storage: storage.with(place, { ...shorter, value }) }, hash, "a node less");
      }
    });
  }
  expectRefused(null, `0x${"0".repeat(64)}`);
  expectRefused({}, `0x${"0".repeat(64)}`);
});

test("a proof with a value of another type is refused, also if it turns into the same text", async () => {
  for (const { proof, hash, question } of await sampleProofs(8)) {
    for (const { path, value, replace } of listValues(proof)) {
      for (const other of [[value], [[value]], { 0: value }, null, true, 1]) {
        if (other === value) continue;
        expectRefused(replace(other), hash, `${path}: ${JSON.stringify(other)}`);
        expectRefused(replace(other), hash, `${path}: ${JSON.stringify(other)}`, question as Check);
      }
    }
  }
});

test("v2's storage proves nothing about v1, however v1 is written", async () => {
  const asked = questions.filter(({ registry, check }) => registry === "v1" && check === "all");
  const answers = await subject.askRegistries(last, asked);
  const question = asked.find((one) => answers.get(formatQuestion(one)) === "true");
  if (!question) throw new Error("Nobody may act for a whole wallet.");
  const proof = await prove(question, last);
  const hash = proof.block.hash as Hex;
  // What v2 would look up: empty in v1.
  const decided = decide({ ...toAsked(question), registry: "v2" } as Question, new Map());
  const slots = "missing" in decided ? decided.missing : [];
  const { storageProof } = await subject.local.client.getProof({
    address: registryOf(question),
    storageKeys: slots,
    blockNumber: last,
  });
  const storage = slots.map((slot, place) => ({ slot, value: toWord(0n), proof: storageProof[place]?.proof ?? [] }));
  const forged = { ...proof, registry: ["v1"], result: false, storage };
  expectRefused(forged, hash);
  expectRefused(forged, hash, undefined, question as Check);
});

test("parts of two proofs are no proof", async () => {
  const proofs = await sampleProofs(12);
  const isSame = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
  for (const one of proofs) {
    for (const other of proofs) {
      if (one === other) continue;
      if (one.hash !== other.hash) {
        expectRefused(one.proof, other.hash, "the hash of another block");
        const { header } = other.proof.block;
        for (const hash of [one.hash, other.hash]) {
          expectRefused({ ...one.proof, block: { ...one.proof.block, header } }, hash, "the header of another block");
        }
      }
      for (const name of ["result", "registry", "check", "parameters", "block", "account", "storage"] as const) {
        if (isSame(one.proof[name], other.proof[name])) continue;
        const mixed = { ...one.proof, [name]: other.proof[name] };
        expectRefused(mixed, one.hash, name, one.question as Check);
      }
      const [mine, theirs] = [one.proof.storage[0], other.proof.storage[0]];
      if (mine && theirs && mine.slot !== theirs.slot) {
        const swapped = { ...mine, proof: theirs.proof, value: theirs.value };
        if (!isSame(swapped, mine)) {
          expectRefusedOrSame({ ...one.proof, storage: one.proof.storage.with(0, swapped) }, one);
        }
        expectRefused({ ...one.proof, storage: one.proof.storage.with(0, theirs) }, one.hash, "another slot");
      }
    }
  }
});

test("a slot of another mapping or registry, and the registry elsewhere, prove nothing", async () => {
  for (const { proof, hash, question } of await sampleProofs(10)) {
    const block = BigInt(proof.block.number);
    const readProof = async (address: Address, slots: Hex[]) =>
      subject.local.client.getProof({ address, storageKeys: slots, blockNumber: block });
    const other = registryOf({ registry: question.registry === "v1" ? "v2" : "v1" });
    const slots = proof.storage.map(({ slot }) => slot as Hex);
    const toStorage = (proofs: Awaited<ReturnType<typeof readProof>>["storageProof"]) =>
      proofs.map(({ key, value, proof }) => ({
        slot: `0x${key.slice(2).padStart(64, "0")}`,
        value: `0x${value.toString(16).padStart(64, "0")}`,
        proof,
      }));
    const elsewhere = await readProof(other, slots);
    const account = { address: other, proof: elsewhere.accountProof };
    expectRefused({ ...proof, account, storage: toStorage(elsewhere.storageProof) }, hash, "another registry");
    expectRefused({ ...proof, account: { ...account, address: proof.account.address } }, hash, "another account");
    // The next word, and the same key in the next mapping.
    for (const elsewhere of [
      slots.map((slot) => toWord(BigInt(slot) ^ 1n)),
      slots.map((slot) => keccak256(concatHex([slot, toWord(1n)]))),
    ]) {
      const { storageProof } = await readProof(registryOf(question), elsewhere);
      const wrong = toStorage(storageProof);
      expectRefused({ ...proof, storage: wrong }, hash, "other slots");
      const renamed = wrong.map((slot, place) => ({ ...slot, slot: slots[place] ?? "" }));
      for (const result of [proof.result, ...OPPOSITES]) {
        expectRefusedOrSame({ ...proof, result, storage: renamed }, { proof, hash, question });
      }
    }
    // With the address of an account without code, nothing is proven, not even false.
    const nobody = subject.world.payer;
    const empty = await readProof(nobody, slots);
    const ofNobody = {
      ...proof,
      result: typeof proof.result === "boolean" ? false : "0",
      account: { address: nobody, proof: empty.accountProof },
      storage: toStorage(empty.storageProof),
    };
    const addresses = { [question.registry]: nobody };
    expect(() => verifyProof(ofNobody, { hash, addresses })).toThrow("There is no registry");
    const absent: Address = "0x00000000000000000000000000000000000abcde";
    const none = await readProof(absent, slots);
    const ofNone = { ...ofNobody, account: { address: absent, proof: none.accountProof } };
    expect(() => verifyProof(ofNone, { hash, addresses: { [question.registry]: absent } })).toThrow("no registry");
  }
});

test("a block without the registry proves nothing, and the service can tell", async () => {
  const [question] = questions;
  if (!question) throw new Error("There are no questions.");
  const absent: Address = "0x00000000000000000000000000000000000abcde";
  for (const address of [absent, subject.world.payer]) {
    await expect(prove(question, last, address)).rejects.toBeInstanceOf(NoRegistryError);
  }
});

test("a proof answers its own question only", async () => {
  const { proof, hash, question } = (await sampleProofs(1))[0] as Sample;
  const check = question as Check;
  expect(verifyProof(proof, { hash, check }).question).toEqual(toAsked(question));
  const turned: Check = { ...check, vault: "0x0000000000000000000000000000000000000abc" };
  expect(() => verifyProof(proof, { hash, check: turned })).toThrow("another question");
});

type Sample = { proof: Proof; hash: Hex; question: WorldQuestion };

/** Proofs of questions and blocks that are spread over all, half of them of a true answer. */
const sampleProofs = async (count: number): Promise<Sample[]> => {
  const random = new Random(7);
  const samples: Sample[] = [];
  while (samples.length < count) {
    const question = random.pick(questions as readonly [WorldQuestion, ...WorldQuestion[]]);
    const block = last - BigInt(random.integer(0, BLOCKS / 2));
    const proof = await prove(question, block);
    const isTrue = proof.result === true || (typeof proof.result === "string" && proof.result !== "0");
    if (isTrue === (samples.length % 2 === 0)) samples.push({ proof, hash: proof.block.hash as Hex, question });
  }
  return samples;
};

type Value = { path: string; value: unknown; replace: (value: unknown) => unknown };

/** Lists all values that are neither lists nor objects. */
const listValues = (value: unknown, path = "proof", rebuild = (part: unknown): unknown => part): Value[] => {
  if (typeof value !== "object" || value === null) return [{ path, value, replace: rebuild }];
  return Object.entries(value).flatMap(([name, item]) =>
    listValues(item, `${path}.${name}`, (part) =>
      rebuild(Array.isArray(value) ? value.with(Number(name), part) : { ...value, [name]: part }),
    ),
  );
};

type Bytes = { path: string; text: string; replace: (text: string) => unknown };

/** Lists all texts in hex digits, with a function that replaces one of them. */
const listBytes = (proof: Proof): Bytes[] =>
  listValues(proof).flatMap(({ path, value, replace }) =>
    typeof value === "string" && /^0x[0-9a-f]+$/i.test(value) ? [{ path, text: value.toLowerCase(), replace }] : [],
  );

/** Two empty slots may have one proof: their paths part from the trie at the same node. It proves the same then. */
const expectRefusedOrSame = (proof: Proof, { proof: original, hash }: Sample) => {
  try {
    expect(verifyProof(proof, { hash }).value).toBe(
      typeof original.result === "string" ? BigInt(original.result) : original.result,
    );
  } catch (error) {
    expect(error).toBeInstanceOf(RegistryError);
  }
};
