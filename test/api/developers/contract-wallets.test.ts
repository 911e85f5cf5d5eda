import pg from "pg";
import { type Address, encodeFunctionData, type Hex, parseAbi, serializeErc6492Signature } from "viem";
import type { PrivateKeyAccount } from "viem/accounts";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { LocalChain } from "../../../local/chain.ts";
import { compileContracts } from "../../../local/compile-contracts.ts";
import { findFreePort } from "../../../process/ports.ts";
import { type Api, launchApi } from "../../support/api.ts";
import { createWallet, Visitor } from "../../support/developers.ts";
import { createDatabase, launchChain } from "../../support/setup.ts";

const FACTORY: Address = "0xFac7000000000000000000000000000000000001";
const abi = parseAbi([
  "function deploy(address owner) returns (address)",
  "function addressOf(address owner) view returns (address)",
]);
const SECRET = "s3cret";

let chains: LocalChain[];
let database: pg.Client;
let api: Api;
/** Each sign-in is a minute after the one before: no failure is remembered, and none meets a limit. */
let time = 0;
const now = () => {
  time += 60_000;
  return time;
};
beforeAll(async () => {
  const code = await compileContracts();
  chains = await Promise.all([1, 137].map((chainId) => launchChain(chainId)));
  for (const { client } of chains) await client.setCode({ address: FACTORY, bytecode: code.SigningWalletFactory });
  const databaseUrl = await createDatabase();
  database = new pg.Client(databaseUrl);
  await database.connect();
  api = await launchApi({
    databaseUrl,
    now,
    env: {
      ...Object.fromEntries(chains.map(({ chainId, url }) => [`PONDER_RPC_URL_${chainId}`, `${url}/${SECRET}`])),
      // No process listens there.
      PONDER_RPC_URL_10: `http://127.0.0.1:${await findFreePort()}/${SECRET}`,
      LOG_LEVEL: "trace",
    },
  });
});
afterAll(async () => {
  await api?.stop();
  await database?.end();
  for (const chain of chains ?? []) await chain.stop();
});

const addressOf = ({ client }: LocalChain, { address }: PrivateKeyAccount) =>
  client.readContract({ abi, address: FACTORY, functionName: "addressOf", args: [address] });

const deploy = async ({ client, accounts }: LocalChain, { address }: PrivateKeyAccount) => {
  const [account = FACTORY] = accounts;
  await client.writeContract({ abi, address: FACTORY, functionName: "deploy", args: [address], account, chain: null });
  await client.mine({ blocks: 1 });
};

/** Wraps the signature of a wallet that is not deployed yet, with the call that deploys it. */
const wrapSignature = (owner: PrivateKeyAccount, signature: Hex): Hex =>
  serializeErc6492Signature({
    address: FACTORY,
    data: encodeFunctionData({ abi, functionName: "deploy", args: [owner.address] }),
    signature,
  });

const signIn = async (
  address: Address,
  signer: PrivateKeyAccount,
  { chainId = 1, wrap = (signature: Hex) => signature, visitor = new Visitor(api) } = {},
) => {
  const message = await visitor.begin(address, chainId);
  return visitor.finish(message, wrap(await signer.signMessage({ message })));
};

const chain = (index: number): LocalChain => {
  const found = chains[index];
  if (!found) throw new Error(`No chain at index ${index}.`);
  return found;
};

test("a contract wallet signs in with its owner's key only (ERC-1271)", async () => {
  const owner = createWallet();
  const address = await addressOf(chain(0), owner);
  await deploy(chain(0), owner);
  expect(await signIn(address, owner)).toMatchObject({
    status: 200,
    json: { session: { address, network: "Ethereum" } },
  });
  expect(await signIn(address, createWallet())).toMatchObject({
    status: 403,
    json: { type: "/docs#problem-sign-in-refused", detail: expect.stringContaining("a contract on Ethereum") },
  });
});

test("a contract wallet signs in before its deployment (ERC-6492), which does not deploy it", async () => {
  const owner = createWallet();
  const address = await addressOf(chain(0), owner);
  const wrap = (signature: Hex) => wrapSignature(owner, signature);
  expect(await signIn(address, owner, { wrap })).toMatchObject({ status: 200, json: { session: { address } } });
  expect(await chain(0).client.getCode({ address })).toBeUndefined();

  expect(await signIn(address, createWallet(), { wrap })).toMatchObject({ status: 403 });
  // The call deploys the wallet of another owner.
  const other = createWallet();
  const wrapOther = (signature: Hex) => wrapSignature(other, signature);
  expect(await signIn(address, other, { wrap: wrapOther })).toMatchObject({ status: 403 });
  // The call is missing.
  expect(await signIn(address, owner)).toMatchObject({ status: 403 });
});

test("a contract wallet has separate keys on each network, as other wallets may have its address there", async () => {
  const owner = createWallet();
  const address = await addressOf(chain(0), owner);
  for (const each of chains) await deploy(each, owner);
  const [onMainnet, onPolygon] = [new Visitor(api), new Visitor(api)];
  expect(await signIn(address, owner, { chainId: 1, visitor: onMainnet })).toMatchObject({ status: 200 });
  await onMainnet.makeKey("on mainnet");
  expect(await signIn(address, owner, { chainId: 137, visitor: onPolygon })).toMatchObject({
    status: 200,
    json: { session: { address, network: "Polygon" } },
  });
  expect(await onPolygon.keys()).toEqual([]);
  const [key] = await onMainnet.keys();
  expect(await onPolygon.send(`keys/${key?.prefix}`, { method: "DELETE" })).toMatchObject({ status: 404 });
});

test("a contract wallet is refused on a network without an RPC URL; a wallet with a private key is not", async () => {
  const owner = createWallet();
  const address = await addressOf(chain(0), owner);
  expect(await signIn(address, owner, { chainId: 8453 })).toMatchObject({
    status: 403,
    json: { detail: expect.stringContaining("Smart-contract wallets of Base cannot sign in here") },
  });
  expect(await signIn(owner.address, owner, { chainId: 8453 })).toMatchObject({ status: 200 });
  expect(await signIn(owner.address, owner, { chainId: 31337 })).toMatchObject({ status: 200 });
});

test("sign-in returns 503 when the RPC does not answer, and shows its URL neither in the log nor in the response", async () => {
  const owner = createWallet();
  const answer = await signIn(await addressOf(chain(0), owner), owner, { chainId: 10 });
  expect(answer).toMatchObject({
    status: 503,
    headers: { "retry-after": "10" },
    json: { type: "/docs#problem-network-unavailable", detail: expect.stringContaining("does not respond") },
  });
  expect(answer.body).not.toContain(SECRET);
  expect(api.output()).not.toContain(SECRET);
});
