import { db } from "ponder:api";
import schema from "ponder:schema";
import { type Context, Hono } from "hono";
import { and, eq, inArray, or } from "ponder";
import { type Address, type Hex, maxUint256, zeroAddress, zeroHash } from "viem";

// The eight checks as API functions, written like those in Ponder's documentation: a route, a drizzle query,
// c.json(). https://ponder.sh/docs/query/api-endpoints

const { delegationV1, delegationV2 } = schema;

const app = new Hono();

/** Reads a request's parameters. Text that is not hexadecimal matches nothing; Ponder's columns lower-case values. */
const readQuery = (c: Context) => {
  const { to, from, contract = zeroAddress, tokenId = "0", rights = zeroHash, chainId = "1" } = c.req.query();
  return {
    to: to as Address,
    from: from as Address,
    contract: contract as Address,
    tokenId: BigInt(tokenId),
    rights: rights as Hex,
    chainId: Number(chainId),
  };
};

type Query = ReturnType<typeof readQuery>;

const betweenV1 = ({ chainId, from, to }: Query) =>
  and(eq(delegationV1.chainId, chainId), eq(delegationV1.vault, from), eq(delegationV1.delegate, to));

const scopeV1 = (type: "ALL" | "CONTRACT" | "TOKEN", contract: Address, tokenId: bigint) =>
  and(eq(delegationV1.type, type), eq(delegationV1.contract, contract), eq(delegationV1.tokenId, tokenId));

/** In v2, a delegation with full rights satisfies a check for any rights. */
const betweenV2 = ({ chainId, from, to, rights }: Query) =>
  and(
    eq(delegationV2.chainId, chainId),
    eq(delegationV2.vault, from),
    eq(delegationV2.delegate, to),
    inArray(delegationV2.rights, [zeroHash, rights]),
  );

const scopeV2 = (type: "ALL" | "CONTRACT" | "ERC721" | "ERC20" | "ERC1155", contract: Address, tokenId: bigint) =>
  and(eq(delegationV2.type, type), eq(delegationV2.contract, contract), eq(delegationV2.tokenId, tokenId));

app.get("/check/v1/all", async (c) => {
  const query = readQuery(c);
  const rows = await db
    .select()
    .from(delegationV1)
    .where(and(betweenV1(query), scopeV1("ALL", zeroAddress, 0n)))
    .limit(1);
  return c.json(rows.length > 0);
});

app.get("/check/v1/contract", async (c) => {
  const query = readQuery(c);
  const rows = await db
    .select()
    .from(delegationV1)
    .where(and(betweenV1(query), or(scopeV1("ALL", zeroAddress, 0n), scopeV1("CONTRACT", query.contract, 0n))))
    .limit(1);
  return c.json(rows.length > 0);
});

app.get("/check/v1/token", async (c) => {
  const query = readQuery(c);
  const rows = await db
    .select()
    .from(delegationV1)
    .where(
      and(
        betweenV1(query),
        or(
          scopeV1("ALL", zeroAddress, 0n),
          scopeV1("CONTRACT", query.contract, 0n),
          scopeV1("TOKEN", query.contract, query.tokenId),
        ),
      ),
    )
    .limit(1);
  return c.json(rows.length > 0);
});

app.get("/check/v2/all", async (c) => {
  const query = readQuery(c);
  const rows = await db
    .select()
    .from(delegationV2)
    .where(and(betweenV2(query), scopeV2("ALL", zeroAddress, 0n)))
    .limit(1);
  return c.json(rows.length > 0);
});

app.get("/check/v2/contract", async (c) => {
  const query = readQuery(c);
  const rows = await db
    .select()
    .from(delegationV2)
    .where(and(betweenV2(query), or(scopeV2("ALL", zeroAddress, 0n), scopeV2("CONTRACT", query.contract, 0n))))
    .limit(1);
  return c.json(rows.length > 0);
});

app.get("/check/v2/erc721", async (c) => {
  const query = readQuery(c);
  const rows = await db
    .select()
    .from(delegationV2)
    .where(
      and(
        betweenV2(query),
        or(
          scopeV2("ALL", zeroAddress, 0n),
          scopeV2("CONTRACT", query.contract, 0n),
          scopeV2("ERC721", query.contract, query.tokenId),
        ),
      ),
    )
    .limit(1);
  return c.json(rows.length > 0);
});

app.get("/check/v2/erc20", async (c) => {
  const query = readQuery(c);
  return c.json(await findBalance(query, "ERC20", 0n));
});

app.get("/check/v2/erc1155", async (c) => {
  const query = readQuery(c);
  return c.json(await findBalance(query, "ERC1155", query.tokenId));
});

/** Returns the balance as text, as in Ponder's documentation: JSON numbers cannot hold it. */
const findBalance = async (query: Query, type: "ERC20" | "ERC1155", tokenId: bigint): Promise<string> => {
  const rows = await db
    .select()
    .from(delegationV2)
    .where(
      and(
        betweenV2(query),
        or(
          scopeV2("ALL", zeroAddress, 0n),
          scopeV2("CONTRACT", query.contract, 0n),
          scopeV2(type, query.contract, tokenId),
        ),
      ),
    );
  const amounts = rows.map((row) => (row.type === type ? row.amount : maxUint256));
  return String(amounts.reduce((most, amount) => (amount > most ? amount : most), 0n));
};

export default app;
