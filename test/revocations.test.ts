import type { Address } from "viem";
import { expect, test } from "vitest";
import { encodeV1 } from "../sandbox/calls.ts";
import { readSnapshot } from "./support/index-state.ts";
import { Random } from "./support/random.ts";
import { connect, createDatabase, startIndexer, untilIndexed } from "./support/setup.ts";
import { Subject } from "./support/subject.ts";
import { transactionBy, type Wallet } from "./support/world.ts";

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

const stories = (cast: Cast): Story[] => {
  const { person, safe, friend, guest, stranger } = cast;
  const all = (delegate: Address) => encodeV1("delegateForAll", [delegate, true]);
  const contract = (delegate: Address) => encodeV1("delegateForContract", [delegate, NFT, true]);
  const token = (delegate: Address) => encodeV1("delegateForToken", [delegate, NFT, 1n, true]);
  const revoke = (delegate: Address) => encodeV1("revokeDelegate", [delegate]);
  const by = (who: "person" | "safe" | "friend", ...calls: `0x${string}`[]) => ({ by: who, calls });

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
      blocks: [[by("safe", all(friend), all(guest))], [by("safe", revoke(friend), encodeV1("revokeAllDelegates", []))]],
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
        [by("person", encodeV1("revokeAllDelegates", []))],
        [by("person", token(friend))],
      ],
      left: [`TOKEN ${friend}`],
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
