import pg from "pg";
import { type Address, getAddress, type Hex, zeroAddress, zeroHash } from "viem";
import { type Answers, formatList, formatQuestion, type Listed, listQuestions, type WorldQuestion } from "./answers.ts";
import type { World } from "./world.ts";

/** Builds a call in the schema analytics. The index selects one of the accepted spellings, so that all of them occur. */
const buildCall = (question: WorldQuestion, index: number): { call: string; values: (string | bigint)[] } => {
  const { registry, check, vault, delegate, ...rest } = question;
  const values: (string | bigint)[] = [index % 3 === 0 ? getAddress(delegate) : delegate, vault];
  if ("contract" in rest) values.push(rest.contract);
  if ("tokenId" in rest) values.push(rest.tokenId);
  if ("rights" in rest) values.push(spellRights(rest.rights, index));
  return { call: `check_${check}${registry === "v1" ? "_v1" : ""}`, values };
};

/** Full rights may be empty, and others may be text. */
const spellRights = (rights: Hex, index: number): string => {
  if (rights === zeroHash) return ["", "0x", rights][index % 3] ?? rights;
  return index % 2 === 0 ? rights : Buffer.from(rights.slice(2), "hex").toString().replaceAll("\0", "");
};

/** A row of analytics.delegations. */
type Row = {
  registry: "v1" | "v2";
  type: string;
  token_standard: string | null;
  vault: Address;
  delegate: Address;
  contract: Address | null;
  token_id: string | null;
  rights: Hex | null;
  amount: string | null;
};

const readRow = (row: Row): Listed => ({
  type: row.token_standard ?? row.type,
  vault: row.vault,
  delegate: row.delegate,
  contract: row.contract ?? zeroAddress,
  tokenId: BigInt(row.token_id ?? 0),
  ...(row.registry === "v2" && { rights: row.rights ?? zeroHash, amount: BigInt(row.amount ?? 0) }),
});

/** Reads answers in SQL at a block or the newest one, in one transaction: all checks or a selection, and all lists. */
export const readSqlAnswers = async ({
  databaseUrl,
  chainId,
  world,
  atBlock,
  questions = listQuestions(world),
}: {
  databaseUrl: string;
  chainId: number;
  world: World;
  atBlock: bigint | null;
  questions?: readonly WorldQuestion[];
}): Promise<{ block: bigint; answers: Answers }> => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    await client.query("begin isolation level repeatable read read only");
    const answers: Answers = new Map();
    for (const [index, question] of questions.entries()) {
      const { call, values } = buildCall(question, index);
      const given = atBlock === null ? [chainId, ...values] : [chainId, ...values, atBlock];
      const { rows } = await client.query({
        name: `${call}${given.length}`,
        text: `select analytics.${call}(${given.map((_, place) => `$${place + 1}`).join(", ")})::text as answer`,
        values: given,
      });
      answers.set(formatQuestion(question), rows[0].answer);
    }

    const source = atBlock === null ? "analytics.delegations where chain_id = $1" : "analytics.delegations_at($1, $2)";
    const { rows } = await client.query<Row>(
      `select * from ${source}`,
      atBlock === null ? [chainId] : [chainId, atBlock],
    );
    for (const { address } of world.wallets) {
      for (const version of ["v1", "v2"] as const) {
        const ofVersion = rows.filter(({ registry }) => registry === version);
        const end = (name: "vault" | "delegate") =>
          formatList(ofVersion.filter((row) => row[name] === address.toLowerCase()).map(readRow));
        answers.set(`${version} incoming ${address}`, end("delegate"));
        answers.set(`${version} outgoing ${address}`, end("vault"));
      }
    }
    const known = await client.query("select analytics.known_block($1, null, $2) as block", [chainId, atBlock]);
    return { block: BigInt(known.rows[0].block), answers };
  } finally {
    await client.end();
  }
};
