import type { Address, Hex } from "viem";
import { expect, test } from "vitest";
import { encodeV1 } from "../../local/calls.ts";
import { readIndexSnapshot } from "../support/index-state.ts";
import { Random } from "../support/random.ts";
import { ComparedChain } from "../support/random-chain.ts";
import { connectClient, createDatabase, startIndexer, waitUntilIndexed } from "../support/setup.ts";
import { buildTransaction, type WorldWallet } from "../support/world.ts";

// The deployed v1 registry emits the caller in RevokeDelegate, not the revoked delegate. An index that trusts the event
// still answers true for a revoked wallet.

type Person = "person" | "safe" | "friend";
type Cast = Record<Person | "guest" | "stranger", Address>;
type Story = {
  name: string;
  /** Blocks of transactions: the sender of each, and its calls. Only the safe, a contract, can make several. */
  blocks: [by: Person, ...calls: Hex[]][][];
  /** The vault's delegations at the end, as type and delegate. */
  left: string[];
};

const NFT = "0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d";

/** More delegates than an index keeps in a vault's list. */
const CROWD = Array.from({ length: 80 }, (_, number): Address => `0xc0${number.toString(16).padStart(38, "0")}`);

const splitGroups = <T>(things: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(things.length / size) }, (_, group) => things.slice(group * size, (group + 1) * size));

const all = (delegate: Address, on = true) => encodeV1("delegateForAll", [delegate, on]);
const contract = (delegate: Address) => encodeV1("delegateForContract", [delegate, NFT, true]);
const token = (delegate: Address) => encodeV1("delegateForToken", [delegate, NFT, 1n, true]);
const revoke = (delegate: Address) => encodeV1("revokeDelegate", [delegate]);
const revokeSelf = (vault: Address) => encodeV1("revokeSelf", [vault]);
const revokeAll = encodeV1("revokeAllDelegates", []);

const stories = ({ person, safe, friend, guest, stranger }: Cast): Story[] => {
  const byPerson = (...calls: Hex[]): Story["blocks"][number] => calls.map((call) => ["person", call]);
  const toCrowd = CROWD.flatMap((delegate) => [all(delegate), contract(delegate), token(delegate)]);
  const [first, second, ...others] = CROWD as [Address, Address, ...Address[]];
  const toOthers = others.flatMap((delegate) => [`ALL ${delegate}`, `CONTRACT ${delegate}`, `TOKEN ${delegate}`]);
  const crowdByPerson = splitGroups(toCrowd, 45).map((calls) => byPerson(...calls));

  return [
    {
      name: "a person revokes one delegate of two: every delegation to it ends, of every type",
      blocks: [byPerson(all(friend), contract(friend), token(friend), all(guest)), byPerson(revoke(friend))],
      left: [`ALL ${guest}`],
    },
    {
      name: "a person revokes a wallet that was never delegated to: nothing ends",
      blocks: [byPerson(all(friend)), byPerson(revoke(stranger))],
      left: [`ALL ${friend}`],
    },
    {
      name: "a delegate revokes itself",
      blocks: [byPerson(all(friend), token(friend), contract(guest)), [["friend", revokeSelf(person)]]],
      left: [`CONTRACT ${guest}`],
    },
    {
      name: "a person who delegated to itself revokes another: its own delegation stays",
      blocks: [byPerson(all(person), all(friend)), byPerson(revoke(friend))],
      left: [`ALL ${person}`],
    },
    {
      name: "a person revokes itself, by either call",
      blocks: [
        byPerson(all(person), all(friend)),
        byPerson(revoke(person)),
        byPerson(all(person)),
        byPerson(revokeSelf(person)),
      ],
      left: [`ALL ${friend}`],
    },
    {
      name: "a contract wallet revokes one delegate of two",
      blocks: [[["safe", all(friend), contract(friend), all(guest)]], [["safe", revoke(friend)]]],
      left: [`ALL ${guest}`],
    },
    {
      name: "a contract wallet revokes several in one transaction",
      blocks: [[["safe", all(friend), token(guest), contract(stranger)]], [["safe", revoke(friend), revoke(stranger)]]],
      left: [`TOKEN ${guest}`],
    },
    {
      name: "a contract wallet delegates and revokes in one transaction",
      blocks: [[["safe", all(friend), all(guest), revoke(friend)]]],
      left: [`ALL ${guest}`],
    },
    {
      name: "a contract wallet revokes and delegates again in one transaction",
      blocks: [[["safe", all(friend), contract(friend)]], [["safe", revoke(friend), all(friend)]]],
      left: [`ALL ${friend}`],
    },
    {
      name: "a contract wallet revokes one delegate and then all",
      blocks: [[["safe", all(friend), all(guest)]], [["safe", revoke(friend), revokeAll]]],
      left: [],
    },
    {
      name: "a contract wallet that delegated to itself revokes another",
      blocks: [[["safe", all(safe), all(friend)]], [["safe", revoke(friend)]]],
      left: [`ALL ${safe}`],
    },
    {
      name: "a later delegation does not bring back a revoked one",
      blocks: [byPerson(all(friend), contract(friend), token(friend)), byPerson(revokeAll), byPerson(token(friend))],
      left: [`TOKEN ${friend}`],
    },
    {
      name: "a delegation that was revoked and made again is revoked again",
      blocks: [
        byPerson(all(friend), contract(guest)),
        byPerson(revokeAll),
        byPerson(all(friend), token(friend), all(guest)),
        byPerson(revoke(friend)),
        byPerson(token(friend)),
        [["friend", revokeSelf(person)]],
      ],
      left: [`ALL ${guest}`],
    },
    {
      name: "a person with hundreds of delegations revokes one delegate, and ends single ones",
      blocks: [...crowdByPerson, byPerson(revoke(first), all(second, false))],
      left: [`CONTRACT ${second}`, `TOKEN ${second}`, ...toOthers],
    },
    {
      name: "a person with hundreds of delegations revokes all, and delegates again",
      blocks: [
        ...crowdByPerson,
        byPerson(revokeAll),
        byPerson(token(first), all(friend), all(guest)),
        byPerson(revoke(friend)),
      ],
      left: [`TOKEN ${first}`, `ALL ${guest}`],
    },
    {
      name: "a person ends hundreds of delegations one by one, delegates again and revokes all",
      blocks: [
        byPerson(...CROWD.map((delegate) => all(delegate))),
        byPerson(...CROWD.map((delegate) => all(delegate, false))),
        byPerson(all(friend), token(guest)),
        byPerson(revokeAll),
      ],
      left: [],
    },
    {
      name: "a contract wallet with hundreds of delegations revokes some in one transaction",
      blocks: [splitGroups(toCrowd, 20).map((calls) => ["safe", ...calls]), [["safe", revoke(first), revoke(second)]]],
      left: toOthers,
    },
  ];
};

test("a v1 revocation ends exactly the revoked delegations, including ones made before a restart", async () => {
  const subject = await ComparedChain.create(8453, new Random(1));
  const { local, world, chain } = subject;
  subject.questions = subject.questions.filter(({ registry }) => registry === "v1");
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  await chain.mine();
  const indexer = await startIndexer({ databaseUrl, chains: [local] });

  const [person, friend, guest, stranger] = world.wallets.filter(({ isContract }) => !isContract);
  const safe = world.wallets.find(({ isContract }) => isContract);
  if (!person || !friend || !guest || !stranger || !safe) throw new Error("The world lacks wallets.");
  const cast = { person, safe, friend, guest, stranger };
  const send = (wallet: WorldWallet, ...calls: Hex[]) =>
    buildTransaction(
      world,
      wallet,
      calls.map((data) => ({ target: world.v1, data })),
    );
  const readDelegations = async () => {
    await waitUntilIndexed(database, local);
    const snapshot = await readIndexSnapshot(databaseUrl, "registry", local.chainId);
    return snapshot?.state.v1.map(({ type, delegate }) => `${type} ${delegate}`).sort();
  };

  const addresses = Object.entries(cast).map(([name, { address }]) => [name, address.toLowerCase()]);
  for (const { name, blocks, left } of stories(Object.fromEntries(addresses))) {
    for (const block of blocks) await chain.mine(block.map(([by, ...calls]) => send(cast[by], ...calls)));
    expect.soft(await readDelegations(), name).toEqual(left.toSorted());
    await chain.mine([person, safe].map((wallet) => send(wallet, revokeAll)));
  }
  await waitUntilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 2, 3, 5, 8, 13]);

  // Few and many delegations, revoked while the indexer is down and after its restart.
  await chain.mine([
    send(person, all(guest.address)),
    send(person, token(stranger.address)),
    ...CROWD.map((delegate) => send(friend, contract(delegate))),
    send(friend, all(guest.address)),
  ]);
  await waitUntilIndexed(database, local);
  await indexer.stop();
  await chain.mine([send(person, revoke(guest.address))]);
  await startIndexer({ databaseUrl, chains: [local] });
  await chain.mine([send(guest, revokeSelf(friend.address))]);
  await waitUntilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 2]);
  await chain.mine([person, friend].map((wallet) => send(wallet, revokeAll)));
  expect(await readDelegations()).toEqual([]);
});
