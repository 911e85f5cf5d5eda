import { type Address, getAddress, zeroAddress, zeroHash } from "viem";
import {
  createClient,
  type Delegate,
  type DelegationV1,
  type DelegationV2,
  type RegistryClient,
  type Vault,
  type Wait,
  type WalletChange,
  type WalletDelegation,
  type WalletPage,
} from "../../client/src/index.ts";
import {
  type Answers,
  findDifferences,
  formatList,
  formatLists,
  formatQuestion,
  type Listed,
  type WorldQuestion,
} from "./answers.ts";
import { BlockMismatchError, type Queries } from "./index-state.ts";
import { describeGrant, readGrantsInSql } from "./sql-answers.ts";
import type { World } from "./world.ts";

// Asks the API through its client. Every answer has to be for the expected block.

const CHECKS_AT_ONCE = 64;
const LISTS_AT_ONCE = 8;
/** Every seventh list of vaults or delegates is compared in SQL too, as each takes a statement of its own. */
const IN_SQL = 7;

/** On a busy machine Postgres may take too long for some requests. Any other failure counts. */
const onWait = ({ error }: Wait): void => {
  if (error && !/#problem-(database-unavailable|overloaded)$/.test(error.problem?.type ?? "")) throw error;
};
const PATIENT = { retries: 5, timeoutMs: 60_000, onWait };

/** Calls a function for each value, some at once. */
const forEach = async <T>(values: readonly T[], atOnce: number, run: (value: T, index: number) => Promise<void>) => {
  const remaining = [...values.entries()];
  while (remaining.length > 0) {
    await Promise.all(remaining.splice(0, atOnce).map(([index, value]) => run(value, index)));
  }
};

type AskedAnswers = {
  apiUrl: string;
  chainId: number;
  world: World;
  questions: readonly WorldQuestion[];
  /** The newest indexed block. */
  newest: bigint;
  /** A block to ask about. */
  past?: bigint | undefined;
  key?: string | undefined;
};

/** Reads the answers to checks, one by one, and all lists. Every second request sends the key. */
export const readApiAnswers = async (asked: AskedAnswers): Promise<Answers> => {
  const { apiUrl, chainId, world, questions, newest, past, key } = asked;
  const blocks = new Set<string>();
  const recordBlock: typeof fetch = async (...request) => {
    const response = await fetch(...request);
    const { headers } = response;
    if (response.ok) blocks.add(`${headers.get("X-Indexed-Block")}, asked ${headers.get("X-Answered-Block")}`);
    return response;
  };
  const options = { url: apiUrl, batch: false, fetch: recordBlock, ...PATIENT };
  const withoutKey = createClient(options);
  const withKey = key === undefined ? withoutKey : createClient({ ...options, apiKey: key });
  const at = { chainId, ...(past !== undefined && { block: past }) };

  const answers: Answers = new Map();
  await forEach(questions, CHECKS_AT_ONCE, async (question, index) => {
    const client = index % 2 === 1 ? withKey : withoutKey;
    // Addresses in both of their spellings.
    const delegate = index % 3 === 0 ? getAddress(question.delegate) : question.delegate;
    const { value } = await client.check({ ...question, delegate, chainId }, past === undefined ? {} : { block: past });
    answers.set(formatQuestion(question), String(value));
  });
  for (const { address } of world.wallets) {
    for (const [version, client] of [
      ["v1", withoutKey],
      ["v2", withKey],
    ] as const) {
      const list = await readList(client, version, address, at);
      for (const [name, rows] of formatRegistryList(version, address, list)) answers.set(name, rows);
      // A list of a past block is the same in pages.
      if (past === undefined) continue;
      const paged = await readList(client, version, address, { ...at, limit: 2 });
      if (formatRows(paged) !== formatRows(list))
        throw new Error(`The pages of ${version} ${address} are not its list.`);
    }
  }
  const expected = `${newest}, asked ${past ?? null}`;
  if (blocks.size !== 1 || !blocks.has(expected)) {
    throw new BlockMismatchError(`The answers are for the blocks ${[...blocks].join("; ")}, not for ${expected}.`);
  }
  return answers;
};

/** Reads the answers to many checks in one request. */
export const readBulkAnswers = async (asked: AskedAnswers & { key: string }): Promise<Answers> => {
  const { apiUrl, chainId, questions, newest, past, key } = asked;
  const client = createClient({ url: apiUrl, apiKey: key, ...PATIENT });
  const checks = questions.map((question) => ({ ...question, chainId }));
  const results = await client.checks(checks, past === undefined ? {} : { block: past });
  const answers: Answers = new Map();
  for (const [index, question] of questions.entries()) {
    const { value, block, error } = results[index] ?? {};
    if (error) throw error;
    if (block?.number !== (past ?? newest)) throw new BlockMismatchError(`An answer is for block ${block?.number}.`);
    answers.set(formatQuestion(question), String(value));
  }
  return answers;
};

/** Formats rows as JSON, with large numbers as strings. */
const formatRows = (rows: readonly object[]): string =>
  JSON.stringify(rows, (_, value) => (typeof value === "bigint" ? String(value) : value));

type RegistryRow = DelegationV1 | DelegationV2;

/** Reads a wallet's list: incoming delegations first, then outgoing ones, each with the oldest first. */
export const readList = async (
  client: RegistryClient,
  version: "v1" | "v2",
  wallet: Address,
  options: { chainId: number; block?: bigint; limit?: number },
): Promise<RegistryRow[]> => {
  const rows: RegistryRow[] = await client[version].delegations(wallet, options).all();
  const places = rows.map((row) => {
    const isIncoming = toListed(version, row).delegate === getAddress(wallet);
    if (isIncoming !== (row.direction === "incoming")) throw new Error(`A false direction: ${formatRows([row])}`);
    return (isIncoming ? 0n : 10n ** 12n) + row.blockNumber;
  });
  if (places.some((place, index) => place < (places[index - 1] ?? 0n))) {
    throw new Error(`The list of ${wallet} is not in order: ${formatRows(rows)}`);
  }
  return rows;
};

/** Formats a list with its names in `Answers`. */
export const formatRegistryList = (version: "v1" | "v2", wallet: Address, rows: readonly RegistryRow[]) =>
  formatLists(
    version,
    wallet,
    rows.map((row) => toListed(version, row)),
  );

const toListed = (version: "v1" | "v2", row: RegistryRow | Granted["delegations"][number]): Listed => ({
  type: ("tokenStandard" in row ? row.tokenStandard : null) ?? row.type,
  ...("from" in row ? { vault: row.from, delegate: row.to } : { vault: row.vault, delegate: row.delegate }),
  contract: row.contract ?? zeroAddress,
  tokenId: row.tokenId ?? 0n,
  ...(version === "v2" && "rights" in row && { rights: row.rights, amount: row.amount ?? 0n }),
});

type Granted = Vault | Delegate;

type AskedWallets = {
  apiUrl: string;
  chainId: number;
  /** The block of the answers. */
  block: bigint;
  /** The past block or time of the question. Absent: the newest block. */
  at?: { block: bigint } | { timestamp: bigint };
};

const createWalletClient = ({ apiUrl }: AskedWallets) => createClient({ url: apiUrl, ...PATIENT });

/** Reads all rows of a list. With a time, the block is the newest one until then that changed a delegation. */
const readRows = async <Row>(
  { pages }: { pages: () => AsyncIterable<WalletPage<Row>> },
  { chainId, block, at }: AskedWallets,
): Promise<Row[]> => {
  const rows: Row[] = [];
  for await (const page of pages()) {
    const number = page.blocks[chainId]?.number ?? 0n;
    const isExpected = at && "timestamp" in at ? number <= block : number === block;
    if (!isExpected) throw new BlockMismatchError(`A page is for block ${number}, not for ${block}.`);
    rows.push(...page.rows);
  }
  return rows;
};

/** Filters the registry's list of a vault's delegations for the ones that satisfy a check alone. */
const findGrants = (question: WorldQuestion, answers: Answers): string => {
  const { registry, check, vault, delegate } = question;
  const contract = "contract" in question ? question.contract : zeroAddress;
  const tokenId = "tokenId" in question ? question.tokenId : 0n;
  const rights = "rights" in question ? question.rights : zeroHash;
  const satisfies = (line: string) => {
    const [type, , to, of, token, given] = line.split(" ");
    if (to !== delegate.toLowerCase()) return false;
    if (registry === "v2" && given !== zeroHash && given !== rights) return false;
    if (type === "all") return true;
    if (check === "all" || of !== contract.toLowerCase()) return false;
    return type === "contract" || (type === check && BigInt(token ?? 0) === tokenId);
  };
  return (answers.get(`${registry} outgoing ${vault}`) ?? "").split("\n").filter(satisfies).join("\n");
};

/** Questions that one list answers. */
type Group = { list: "vaults" | "delegates"; wallet: Address; questions: [WorldQuestion, ...WorldQuestion[]] };

/** Groups questions by the vaults of a delegate, and by the delegates of a vault, with the same scope. */
const groupQuestions = (questions: readonly WorldQuestion[]): [name: string, group: Group][] => {
  const groups = new Map<string, Group>();
  for (const question of questions) {
    const { vault, delegate, ...scope } = question;
    for (const [list, wallet] of [
      ["vaults", delegate],
      ["delegates", vault],
    ] as const) {
      const name = [list, wallet, ...Object.values(scope)].join(" ");
      const group = groups.get(name);
      if (group) group.questions.push(question);
      else groups.set(name, { list, wallet, questions: [question] });
    }
  }
  return [...groups];
};

/**
 * Asks for the vaults of each delegate and the delegates of each vault, and compares each row with the registry's own
 * check, its delegations with the registry's own list, and some lists with those in SQL.
 * @param isComplete - true if the questions are all that there are, so that there is no other row
 */
export const compareGrants = async (
  asked: AskedWallets,
  answers: Answers,
  { questions, isComplete, database }: { questions: readonly WorldQuestion[]; isComplete: boolean; database: Queries },
): Promise<{ lists: number; differences: string[] }> => {
  const { chainId, block, at } = asked;
  const client = createWalletClient(asked);
  const groups = groupQuestions(questions);
  const differences: string[] = [];
  await forEach(groups, LISTS_AT_ONCE, async ([name, { list, wallet, questions }], index) => {
    const [{ vault: _, delegate: __, ...scope }] = questions;
    // Some in pages of one.
    const options = { ...scope, ...at, chainId, limit: index % 3 === 0 ? 1 : 100 };
    const rows: Granted[] = await readRows<Granted>(client[list](wallet, options), asked);
    const byWallet = new Map(rows.map((row) => ["vault" in row ? row.vault : row.delegate, row]));
    const [actual, expected]: [Answers, Answers] = [new Map(), new Map()];
    let granted = 0;
    for (const question of questions) {
      const { registry, check, vault, delegate } = question;
      const row = byWallet.get(getAddress(list === "vaults" ? vault : delegate));
      const none = /erc20|erc1155/.test(check) ? "0" : "false";
      const delegations = row ? formatList(row.delegations.map((row) => toListed(registry, row))) : "";
      const answer = answers.get(formatQuestion(question));
      if (answer !== none) granted++;
      actual.set(formatQuestion(question), `${row ? (row.amount ?? true) : none}\n${delegations}`);
      expected.set(formatQuestion(question), `${answer}\n${findGrants(question, answers)}`);
    }
    actual.set("number of rows", String(rows.length));
    expected.set("number of rows", String(isComplete ? granted : byWallet.size));
    if (index % IN_SQL === 0) {
      actual.set("rows in SQL", formatRows(await readGrantsInSql(database, list, wallet, options)));
      expected.set("rows in SQL", formatRows(rows.map(describeGrant)));
    }
    differences.push(...findDifferences(actual, expected, `chain ${chainId} at block ${block}: ${name}`));
  });
  return { lists: groups.length, differences };
};

const describeKey = (row: WalletChange | WalletDelegation) =>
  [row.registry, row.type, row.tokenStandard, row.vault, row.delegate, row.contract, row.tokenId, row.rights].join();

/** A delegation is active since the change that made it, with the amount of the newest one. */
const describeActive = (made: WalletChange | WalletDelegation, amount: bigint | null) =>
  [made.blockNumber, made.blockTimestamp, made.transactionHash, amount].join();

/** Compares a wallet's list with the registries' own, and with its history: each change has to fit the ones before it. */
export const compareWallet = async (
  asked: AskedWallets,
  wallet: Address,
  answers: Answers,
): Promise<{ lists: number; differences: string[] }> => {
  const { chainId, block, at } = asked;
  const who = `wallet ${wallet} on chain ${chainId} at block ${block}`;
  const client = createWalletClient(asked);
  const listed = await readRows(client.delegations(wallet, { chainId, ...at, limit: 3 }), asked);
  const changes = await readRows(client.history(wallet, { chainId, ...at, limit: 7 }), asked);

  const active = new Map<string, { made: WalletChange; amount: bigint | null }>();
  const places = new Set<string>();
  for (const change of changes.toReversed()) {
    const { kind, amount, blockNumber, logIndex, ordinal } = change;
    const place = [blockNumber, logIndex, ordinal].join();
    const before = active.get(describeKey(change));
    const isAmount = kind !== "changed" || amount !== before?.amount;
    if (places.has(place) || (before === undefined) !== (kind === "made") || !isAmount) {
      throw new Error(`History of ${who}: ${formatRows([change])} does not fit the change before it.`);
    }
    places.add(place);
    if (kind === "revoked") active.delete(describeKey(change));
    else active.set(describeKey(change), { made: before?.made ?? change, amount });
  }
  const folded = [...active].map(([key, { made, amount }]) => [key, describeActive(made, amount)] as const);
  const shown = listed.map((row) => [describeKey(row), describeActive(row, row.amount)] as const);
  if (new Set(shown.map(([key]) => key)).size !== shown.length) throw new Error(`The list of ${who} has a row twice.`);

  const ofVersion = (version: "v1" | "v2") =>
    formatLists(
      version,
      wallet,
      listed.filter(({ registry }) => registry === version).map((row) => toListed(version, row)),
    );
  const lists: Answers = new Map([...ofVersion("v1"), ...ofVersion("v2")]);
  const expected: Answers = new Map([...answers].filter(([name]) => lists.has(name)));
  return {
    lists: lists.size,
    differences: [
      ...findDifferences(lists, expected, who),
      ...findDifferences(new Map(folded), new Map(shown), `history of ${who}`),
    ],
  };
};
