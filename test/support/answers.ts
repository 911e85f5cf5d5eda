import { type Abi, type Address, createClient, type Hex, http, maxUint256, zeroAddress, zeroHash } from "viem";
import { readContract } from "viem/actions";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import type { DelegationV1, DelegationV2, State } from "./index-state.ts";
import type { World } from "./world.ts";

/** Answers by the text of their question. */
export type Answers = Map<string, string>;

export type WorldQuestion =
  | { registry: "v1"; check: "all"; vault: Address; delegate: Address }
  | { registry: "v1"; check: "contract"; vault: Address; delegate: Address; contract: Address }
  | { registry: "v1"; check: "token"; vault: Address; delegate: Address; contract: Address; tokenId: bigint }
  | { registry: "v2"; check: "all"; vault: Address; delegate: Address; rights: Hex }
  | { registry: "v2"; check: "contract" | "erc20"; vault: Address; delegate: Address; contract: Address; rights: Hex }
  | {
      registry: "v2";
      check: "erc721" | "erc1155";
      vault: Address;
      delegate: Address;
      contract: Address;
      tokenId: bigint;
      rights: Hex;
    };

export const formatQuestion = (question: WorldQuestion): string => Object.values(question).join(" ");

/** Lists every possible check between the wallets of a world. */
export const listQuestions = ({ wallets, contracts, tokenIds, rights }: World): WorldQuestion[] => {
  const questions: WorldQuestion[] = [];
  for (const { address: vault } of wallets) {
    for (const { address: delegate } of wallets) {
      const pair = { vault, delegate };
      questions.push({ registry: "v1", check: "all", ...pair });
      for (const right of rights) questions.push({ registry: "v2", check: "all", ...pair, rights: right });
      for (const contract of contracts) {
        questions.push({ registry: "v1", check: "contract", ...pair, contract });
        for (const right of rights) {
          for (const check of ["contract", "erc20"] as const) {
            questions.push({ registry: "v2", check, ...pair, contract, rights: right });
          }
        }
        for (const tokenId of tokenIds) {
          questions.push({ registry: "v1", check: "token", ...pair, contract, tokenId });
          for (const right of rights) {
            for (const check of ["erc721", "erc1155"] as const) {
              questions.push({ registry: "v2", check, ...pair, contract, tokenId, rights: right });
            }
          }
        }
      }
    }
  }
  return questions;
};

const CHECKS = {
  all: "checkDelegateForAll",
  contract: "checkDelegateForContract",
  token: "checkDelegateForToken",
  erc20: "checkDelegateForERC20",
  erc721: "checkDelegateForERC721",
  erc1155: "checkDelegateForERC1155",
};

const batchingClient = (url: string) =>
  createClient({ transport: http(url, { batch: { batchSize: 200 }, timeout: 120_000 }) });

/** Reads the registries' own answers at a block: all checks or a selection, and all lists. */
export const readContractAnswers = async (
  url: string,
  world: World,
  blockNumber: bigint,
  questions: readonly WorldQuestion[] = listQuestions(world),
): Promise<Answers> => {
  const client = batchingClient(url);
  const v1 = { abi: registryV1Abi, address: world.v1, blockNumber } as const;
  const v2 = { abi: registryV2Abi, address: world.v2, blockNumber } as const;

  const ask = ({ registry, check, vault, delegate, ...rest }: WorldQuestion): Promise<unknown> => {
    // The rest is in the order of the functions' arguments: contract, token id, rights.
    const call: { abi: Abi; address: Address; blockNumber: bigint } = registry === "v1" ? v1 : v2;
    return readContract(client, {
      ...call,
      functionName: CHECKS[check],
      args: [delegate, vault, ...Object.values(rest)],
    });
  };

  const answers: Answers = new Map();
  await Promise.all(
    questions.map(async (question) => answers.set(formatQuestion(question), String(await ask(question)))),
  );

  const lists = world.wallets.flatMap(({ address }) => [
    readContract(client, { ...v1, functionName: "getDelegationsByDelegate", args: [address] }).then((rows) =>
      answers.set(`v1 incoming ${address}`, formatList(rows.map(readDelegationV1))),
    ),
    Promise.all([
      readContract(client, { ...v1, functionName: "getDelegatesForAll", args: [address] }),
      readContract(client, { ...v1, functionName: "getContractLevelDelegations", args: [address] }),
      readContract(client, { ...v1, functionName: "getTokenLevelDelegations", args: [address] }),
    ]).then(([delegates, contracts, tokens]) => {
      const unlimited = { contract: zeroAddress, tokenId: 0n };
      answers.set(
        `v1 outgoing ${address}`,
        formatList([
          ...delegates.map((delegate) => ({ type: "ALL", vault: address, delegate, ...unlimited })),
          ...contracts.map(({ contract_, delegate }) => {
            return { type: "CONTRACT", vault: address, delegate, contract: contract_, tokenId: 0n };
          }),
          ...tokens.map(({ contract_, delegate, tokenId }) => {
            return { type: "TOKEN", vault: address, delegate, contract: contract_, tokenId };
          }),
        ]),
      );
    }),
    readContract(client, { ...v2, functionName: "getIncomingDelegations", args: [address] }).then((rows) =>
      answers.set(`v2 incoming ${address}`, formatList(rows.map(readDelegationV2))),
    ),
    readContract(client, { ...v2, functionName: "getOutgoingDelegations", args: [address] }).then((rows) =>
      answers.set(`v2 outgoing ${address}`, formatList(rows.map(readDelegationV2))),
    ),
  ]);
  await Promise.all(lists);
  return answers;
};

/** Reads all delegations between the wallets of a world from the registries, at a block. */
export const readContractState = async (url: string, world: World, blockNumber: bigint): Promise<State> => {
  const client = batchingClient(url);
  const v1 = { abi: registryV1Abi, address: world.v1, blockNumber } as const;
  const v2 = { abi: registryV2Abi, address: world.v2, blockNumber } as const;
  const lists = world.wallets.map(({ address }) =>
    Promise.all([
      readContract(client, { ...v1, functionName: "getDelegationsByDelegate", args: [address] }),
      readContract(client, { ...v2, functionName: "getIncomingDelegations", args: [address] }),
    ]),
  );
  const read = await Promise.all(lists);
  return {
    v1: read.flatMap(([rows]) => rows.map(readDelegationV1)),
    v2: read.flatMap(([, rows]) => rows.map(readDelegationV2)),
  };
};

const V1_TYPES = [undefined, "ALL", "CONTRACT", "TOKEN"] as const;
const V2_TYPES = [undefined, "ALL", "CONTRACT", "ERC721", "ERC20", "ERC1155"] as const;

const nameType = <Type>(types: readonly (Type | undefined)[], index: number): Type => {
  const type = types[index];
  if (type === undefined) throw new Error(`A registry lists a delegation of type ${index}.`);
  return type;
};

type ListedV1 = { type_: number; vault: Address; delegate: Address; contract_: Address; tokenId: bigint };

const readDelegationV1 = ({ type_, contract_, ...row }: ListedV1): DelegationV1 => ({
  ...row,
  contract: contract_,
  type: nameType(V1_TYPES, type_),
});

type ListedV2 = {
  type_: number;
  to: Address;
  from: Address;
  rights: Hex;
  contract_: Address;
  tokenId: bigint;
  amount: bigint;
};

const readDelegationV2 = ({ type_, from, to, contract_, ...row }: ListedV2): DelegationV2 => ({
  ...row,
  type: nameType(V2_TYPES, type_),
  vault: from,
  delegate: to,
  contract: contract_,
});

export type Listed = {
  type: string;
  vault: Address;
  delegate: Address;
  contract: Address;
  tokenId: bigint;
  rights?: Hex;
  amount?: bigint;
};

/** Formats a list as sorted text: the registry and the service use different orders. */
export const formatList = (rows: readonly Listed[]): string =>
  rows
    .map(({ type, vault, delegate, contract, tokenId, rights = "", amount = "" }) =>
      [type, vault, delegate, contract, tokenId, rights, amount].join(" ").toLowerCase(),
    )
    .sort()
    .join("\n");

const isSame = (a: Address, b: Address) => a.toLowerCase() === b.toLowerCase();

/** Formats a wallet's incoming and outgoing list, with their names in `Answers`. Other wallets' rows are left out. */
export const formatLists = (version: "v1" | "v2", wallet: Address, rows: readonly Listed[]): [string, string][] => [
  [`${version} incoming ${wallet}`, formatList(rows.filter(({ delegate }) => isSame(delegate, wallet)))],
  [`${version} outgoing ${wallet}`, formatList(rows.filter(({ vault }) => isSame(vault, wallet)))],
];

/** Creates a function that answers checks from a state, by the rules of the registries. */
const createChecker = (state: State): ((question: WorldQuestion) => string) => {
  const v1 = new Set(state.v1.map((row) => keyV1(row)));
  const v2 = new Map(state.v2.map((row) => [keyV2(row), row.amount]));

  const holdsV1 = (key: DelegationV1) => v1.has(keyV1(key));
  /** Matches exactly these rights, or full rights. */
  const holdsV2 = (key: Omit<DelegationV2, "amount">) =>
    v2.has(keyV2(key)) || v2.has(keyV2({ ...key, rights: zeroHash }));

  const answer = (question: WorldQuestion): boolean | bigint => {
    const { vault, delegate } = question;
    const contract = "contract" in question ? question.contract : zeroAddress;
    const tokenId = "tokenId" in question ? question.tokenId : 0n;
    if (question.registry === "v1") {
      return (
        holdsV1({ type: "ALL", vault, delegate, contract: zeroAddress, tokenId: 0n }) ||
        (question.check !== "all" && holdsV1({ type: "CONTRACT", vault, delegate, contract, tokenId: 0n })) ||
        (question.check === "token" && holdsV1({ type: "TOKEN", vault, delegate, contract, tokenId }))
      );
    }
    const { rights } = question;
    const isBroad =
      holdsV2({ type: "ALL", vault, delegate, rights, contract: zeroAddress, tokenId: 0n }) ||
      (question.check !== "all" && holdsV2({ type: "CONTRACT", vault, delegate, rights, contract, tokenId: 0n }));
    switch (question.check) {
      case "all":
      case "contract":
        return isBroad;
      case "erc721":
        return isBroad || holdsV2({ type: "ERC721", vault, delegate, rights, contract, tokenId });
      case "erc20":
      case "erc1155": {
        if (isBroad) return maxUint256;
        const type = question.check === "erc20" ? "ERC20" : "ERC1155";
        const amount = (rights: Hex) => v2.get(keyV2({ type, vault, delegate, rights, contract, tokenId })) ?? 0n;
        const [exact, full] = [amount(rights), amount(zeroHash)];
        return exact > full ? exact : full;
      }
    }
  };

  return (question) => String(answer(question));
};

/** Derives answers from a state: all checks or a selection, and all lists. */
export const deriveAnswers = (
  state: State,
  world: World,
  questions: readonly WorldQuestion[] = listQuestions(world),
): Answers => {
  const check = createChecker(state);
  const lists = world.wallets.flatMap(({ address }) => [
    ...formatLists("v1", address, state.v1),
    ...formatLists("v2", address, state.v2),
  ]);
  return new Map([...questions.map((question) => [formatQuestion(question), check(question)] as const), ...lists]);
};

const keyV1 = ({ vault, delegate, type, contract, tokenId }: DelegationV1) =>
  [vault, delegate, type, contract, tokenId].join().toLowerCase();
const keyV2 = ({ vault, delegate, type, contract, tokenId, rights }: Omit<DelegationV2, "amount">) =>
  [vault, delegate, type, contract, tokenId, rights].join().toLowerCase();

/** Returns a line for each question with different answers. `who` names the source of the actual ones. */
export const findDifferences = (actual: Answers, expected: Answers, who: string): string[] => {
  const questions = new Set([...actual.keys(), ...expected.keys()]);
  return [...questions].flatMap((question) => {
    const [got, want] = [actual.get(question), expected.get(question)];
    return got === want ? [] : `${who}: ${question}: ${got}, but the registry says ${want}`;
  });
};
