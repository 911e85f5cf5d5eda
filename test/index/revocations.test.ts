import type { Address } from "viem";
import { expect, test } from "vitest";
import { encodeV1 } from "../../sandbox/calls.ts";
import { readSnapshot } from "../support/index-state.ts";
import { Random } from "../support/random.ts";
import { connect, createDatabase, startIndexer, untilIndexed } from "../support/setup.ts";
import { Subject } from "../support/subject.ts";
import { transactionBy, type Wallet } from "../support/world.ts";

// The deployed v1 registry names the caller in RevokeDelegate, not who was revoked. Whoever believes
// the event keeps saying yes for a revoked wallet.

type Story = {
  name: string;
  /** What each wallet does, a block for each line. */
  blocks: { by: "person" | "safe" | "friend"; calls: `0x${string}`[] }[][];
  /** What the vault still delegates at the end, as type and delegate. */
  left: string[];
};

type Cast = Record<"person" | "safe" | "friend" | "guest" | "stranger", Address>;

const NFT = "0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d";

/** More wallets than an index keeps a list of. */
const CROWD = Array.from({ length: 80 }, (_, number): Address => `0xc0${number.toString(16).padStart(38, "0")}`);

const inGroups = <T>(things: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(things.length / size) }, (_, group) => things.slice(group * size, (group + 1) * size));

const stories = (cast: Cast): Story[] => {
  const { person, safe, friend, guest, stranger } = cast;
  const all = (delegate: Address) => encodeV1("delegateForAll", [delegate, true]);
  const contract = (delegate: Address) => encodeV1("delegateForContract", [delegate, NFT, true]);
  const token = (delegate: Address) => encodeV1("delegateForToken", [delegate, NFT, 1n, true]);
  const revoke = (delegate: Address) => encodeV1("revokeDelegate", [delegate]);
  const revokeAll = encodeV1("revokeAllDelegates", []);
  const by = (who: "person" | "safe" | "friend", ...calls: `0x${string}`[]) => ({ by: who, calls });

  const toCrowd = CROWD.flatMap((delegate) => [all(delegate), contract(delegate), token(delegate)]);
  const [first, second, ...others] = CROWD as [Address, Address, ...Address[]];
  const toOthers = others.flatMap((delegate) => [`ALL ${delegate}`, `CONTRACT ${delegate}`, `TOKEN ${delegate}`]);

  return [
    {
      name: "a person revokes one delegate of two: every delegation to it ends, of every type",
      blocks: [
        [
          by("person", all(friend)),
          by("person", contract(friend)),
          by("person", token(friend)),
          by("person", all(guest)),
        ],
        [by("person", revoke(friend))],
      ],
      left: [`ALL ${guest}`],
    },
    {
      name: "a person revokes a wallet that was never delegated to: nothing ends",
      blocks: [[by("person", all(friend))], [by("person", revoke(stranger))]],
      left: [`ALL ${friend}`],
    },
    {
      name: "a delegate revokes itself",
      blocks: [
        [by("person", all(friend)), by("person", token(friend)), by("person", contract(guest))],
        [by("friend", encodeV1("revokeSelf", [person]))],
      ],
      left: [`CONTRACT ${guest}`],
    },
    {
      name: "a person who delegated to itself revokes another: its own delegation stays",
      blocks: [[by("person", all(person)), by("person", all(friend))], [by("person", revoke(friend))]],
      left: [`ALL ${person}`],
    },
    {
      name: "a person revokes itself, by either call",
      blocks: [
        [by("person", all(person)), by("person", all(friend))],
        [by("person", revoke(person))],
        [by("person", all(person))],
        [by("person", encodeV1("revokeSelf", [person]))],
      ],
      left: [`ALL ${friend}`],
    },
    {
      name: "a contract wallet revokes one delegate of two",
      blocks: [[by("safe", all(friend), contract(friend), all(guest))], [by("safe", revoke(friend))]],
      left: [`ALL ${guest}`],
    },
    {
      name: "a contract wallet revokes several in one transaction",
      blocks: [
        [by("safe", all(friend), token(guest), contract(stranger))],
        [by("safe", revoke(friend), revoke(stranger))],
      ],
      left: [`TOKEN ${guest}`],
    },
    {
      name: "a contract wallet delegates and revokes in one transaction",
      blocks: [[by("safe", all(friend), all(guest), revoke(friend))]],
      left: [`ALL ${guest}`],
    },
    {
      name: "a contract wallet revokes and delegates again in one transaction",
      blocks: [[by("safe", all(friend), contract(friend))], [by("safe", revoke(friend), all(friend))]],
      left: [`ALL ${friend}`],
    },
    {
      name: "a contract wallet revokes one delegate and then all",
      blocks: [[by("safe", all(friend), all(guest))], [by("safe", revoke(friend), revokeAll)]],
      left: [],
    },
    {
      name: "a contract wallet that delegated to itself revokes another",
      blocks: [[by("safe", all(safe), all(friend))], [by("safe", revoke(friend))]],
      left: [`ALL ${safe}`],
    },
    {
      name: "nothing that was revoked comes back with a later delegation",
      blocks: [
        [by("person", all(friend)), by("person", contract(friend)), by("person", token(friend))],
        [by("person", revokeAll)],
        [by("person", token(friend))],
      ],
      left: [`TOKEN ${friend}`],
    },
    {
      name: "what was revoked and delegated again is revoked again",
      blocks: [
        [by("person", all(friend)), by("person", contract(guest))],
        [by("person", revokeAll)],
        [by("person", all(friend)), by("person", token(friend)), by("person", all(guest))],
        [by("person", revoke(friend))],
        [by("person", token(friend))],
        [by("friend", encodeV1("revokeSelf", [person]))],
      ],
      left: [`ALL ${guest}`],
    },
    {
      name: "a person with hundreds of delegations revokes one delegate, and ends single ones",
      blocks: [
        ...inGroups(toCrowd, 45).map((calls) => calls.map((call) => by("person", call))),
        [by("person", revoke(first)), by("person", encodeV1("delegateForAll", [second, false]))],
      ],
      left: [`CONTRACT ${second}`, `TOKEN ${second}`, ...toOthers],
    },
    {
      name: "a person with hundreds of delegations revokes all, and delegates again",
      blocks: [
        ...inGroups(toCrowd, 45).map((calls) => calls.map((call) => by("person", call))),
        [by("person", revokeAll)],
        [by("person", token(first)), by("person", all(friend)), by("person", all(guest))],
        [by("person", revoke(friend))],
      ],
      left: [`TOKEN ${first}`, `ALL ${guest}`],
    },
    {
      name: "a person ends hundreds of delegations one by one, delegates again and revokes all",
      blocks: [
        CROWD.map((delegate) => by("person", all(delegate))),
        CROWD.map((delegate) => by("person", encodeV1("delegateForAll", [delegate, false]))),
        [by("person", all(friend)), by("person", token(guest))],
        [by("person", revokeAll)],
      ],
      left: [],
    },
    {
      name: "a contract wallet with hundreds of delegations revokes some in one transaction",
      blocks: [inGroups(toCrowd, 20).map((calls) => by("safe", ...calls)), [by("safe", revoke(first), revoke(second))]],
      left: toOthers,
    },
  ];
};

test("v1 revocations end exactly what they revoke, whoever sends them and how", async () => {
  const subject = await Subject.create(8453, new Random(1));
  const { local, world, chain } = subject;
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await chain.mine();
  await startIndexer({ databaseUrl, chains: [local] });

  const people = world.wallets.filter(({ isContract }) => !isContract);
  const safe = world.wallets.find(({ isContract }) => isContract);
  const [person, friend, guest, stranger] = people;
  if (!person || !friend || !guest || !stranger || !safe) throw new Error("The world lacks wallets.");
  const senders: Record<string, Wallet> = { person, friend, safe };
  const lower = ({ address }: Wallet) => address.toLowerCase() as Address;
  const cast: Cast = {
    person: lower(person),
    safe: lower(safe),
    friend: lower(friend),
    guest: lower(guest),
    stranger: lower(stranger),
  };

  for (const { name, blocks, left } of stories(cast)) {
    for (const lines of blocks) {
      await chain.mine(
        lines.map(({ by, calls }) =>
          transactionBy(
            world,
            senders[by] ?? person,
            calls.map((data) => ({ target: world.v1, data })),
          ),
        ),
      );
    }
    await untilIndexed(database, local);
    const snapshot = await readSnapshot(databaseUrl, "registry", local.chainId);
    const delegations = snapshot?.state.v1.map(({ type, delegate }) => `${type} ${delegate}`);
    expect.soft(delegations?.sort(), name).toEqual(left.toSorted());

    // A clean slate for the next story.
    const clear = encodeV1("revokeAllDelegates", []);
    await chain.mine([person, safe].map((wallet) => transactionBy(world, wallet, [{ target: world.v1, data: clear }])));
  }
  await untilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 2, 3, 5, 8, 13]);
});

test("v1 revocations end what was delegated before a restart, little or much", async () => {
  const subject = await Subject.create(8453, new Random(2));
  const { local, world, chain } = subject;
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const [modest, busy, friend] = world.wallets;
  if (!busy || !friend) throw new Error("The world lacks wallets.");
  const send = (wallet: Wallet, data: `0x${string}`) => transactionBy(world, wallet, [{ target: world.v1, data }]);

  await chain.mine([
    send(modest, encodeV1("delegateForAll", [friend.address, true])),
    send(modest, encodeV1("delegateForToken", [busy.address, NFT, 1n, true])),
    ...CROWD.map((delegate) => send(busy, encodeV1("delegateForContract", [delegate, NFT, true]))),
    send(busy, encodeV1("delegateForAll", [friend.address, true])),
  ]);
  const indexer = await startIndexer({ databaseUrl, chains: [local] });
  await untilIndexed(database, local);
  await indexer.stop();

  await chain.mine([send(modest, encodeV1("revokeDelegate", [friend.address]))]);
  await startIndexer({ databaseUrl, chains: [local] });
  await chain.mine([send(friend, encodeV1("revokeSelf", [busy.address]))]);
  await untilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 2]);

  await chain.mine([modest, busy].map((wallet) => send(wallet, encodeV1("revokeAllDelegates", []))));
  await untilIndexed(database, local);
  expect((await readSnapshot(databaseUrl, "registry", local.chainId))?.state.v1).toEqual([]);
});
