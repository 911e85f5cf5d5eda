import { createClient, type RegistryClient } from "./client.ts";
import type { DelegationV1, DelegationV2 } from "./lists.ts";
import type { Address, Hex } from "./questions.ts";

// The read methods of @delegatexyz/sdk and of delegatecash, with the same names and shapes. Those return JavaScript
// numbers; where one would be rounded, these throw, and name the method of the client that is exact.

/** A service: its client, its address, or a transport of viem with its address, such as http("https://…"). */
export type Service = RegistryClient | string | ((options: { chain?: undefined }) => { value?: { url?: string } });

const toClient = (service: Service | undefined): RegistryClient => {
  if (typeof service === "object") return service;
  const url = typeof service === "function" ? service({}).value?.url : service;
  if (!url) throw new TypeError("The address of the delegation registry service is missing.");
  return createClient({ url });
};

const ZERO_ADDRESS = `0x${"0".repeat(40)}` as const;
const EMPTY_RIGHTS: Hex = `0x${"0".repeat(64)}`;

/** A JavaScript number, if it has the value exactly. @param exact - what to use if it has not */
const toNumber = (value: bigint, exact: string): number => {
  if (value <= Number.MAX_SAFE_INTEGER) return Number(value);
  throw new RangeError(`${value} is no exact JavaScript number: use ${exact}, which returns a bigint.`);
};

/** Without rounding: BigInt() of a number above 2^53 is another token. */
const toTokenId = (tokenId: number | bigint): bigint => {
  if (typeof tokenId === "bigint" || Number.isSafeInteger(tokenId)) return BigInt(tokenId);
  throw new RangeError(`${tokenId} is no exact token id: give a bigint.`);
};

type Chain = { id: number };

export type V1Delegation = { type: string; vault: Address; delegate: Address; contract: Address; tokenId: number };

/** The v1 registry, as DelegateV1 of @delegatexyz/sdk and DelegateCash of delegatecash read it. */
export class DelegateV1 {
  readonly #client: RegistryClient;
  readonly #chainId: number;

  constructor(service?: Service, chain: Chain = { id: 1 }) {
    this.#client = toClient(service);
    this.#chainId = chain.id;
  }

  checkDelegateForAll = (delegate: Address, vault: Address): Promise<boolean> =>
    this.#client.v1.checkAll({ delegate, vault, chainId: this.#chainId });

  checkDelegateForContract = (delegate: Address, vault: Address, contract: Address): Promise<boolean> =>
    this.#client.v1.checkContract({ delegate, vault, contract, chainId: this.#chainId });

  checkDelegateForToken = (
    delegate: Address,
    vault: Address,
    contract: Address,
    tokenId: number | bigint,
  ): Promise<boolean> =>
    this.#client.v1.checkToken({ delegate, vault, contract, tokenId: toTokenId(tokenId), chainId: this.#chainId });

  getContractLevelDelegations = async (vault: Address) =>
    (await this.#listOutgoing(vault, "CONTRACT")).map(({ contract, delegate }) => ({ contract, delegate }));

  getDelegatesForAll = async (vault: Address): Promise<Address[]> =>
    (await this.#listOutgoing(vault, "ALL")).map(({ delegate }) => delegate);

  getDelegatesForContract = async (vault: Address, contract: Address): Promise<Address[]> =>
    (await this.#listOutgoing(vault, "CONTRACT"))
      .filter((delegation) => isSame(delegation.contract, contract))
      .map(({ delegate }) => delegate);

  getDelegatesForToken = async (vault: Address, contract: Address, tokenId: number | bigint): Promise<Address[]> => {
    const id = toTokenId(tokenId);
    return (await this.#listOutgoing(vault, "TOKEN"))
      .filter((delegation) => isSame(delegation.contract, contract) && delegation.tokenId === id)
      .map(({ delegate }) => delegate);
  };

  getDelegationsByDelegate = async (delegate: Address): Promise<V1Delegation[]> =>
    (await this.#list(delegate))
      .filter((delegation) => isSame(delegation.delegate, delegate))
      .map(({ type, vault, delegate, contract, tokenId }) => ({
        type,
        vault,
        delegate,
        contract: contract ?? ZERO_ADDRESS,
        tokenId: toNumber(tokenId ?? 0n, "v1.delegations()"),
      }));

  getTokenLevelDelegations = async (vault: Address) =>
    (await this.#listOutgoing(vault, "TOKEN")).map(({ contract, tokenId, delegate }) => ({
      contract,
      tokenId: toNumber(tokenId ?? 0n, "v1.delegations()"),
      delegate,
    }));

  #list(wallet: Address): Promise<DelegationV1[]> {
    return this.#client.v1.delegations(wallet, { chainId: this.#chainId }).all();
  }

  async #listOutgoing(vault: Address, type: string) {
    const outgoing = (await this.#list(vault)).filter((delegation) => isSame(delegation.vault, vault));
    return outgoing
      .filter((delegation) => delegation.type === type)
      .map((delegation) => ({ ...delegation, contract: delegation.contract ?? ZERO_ADDRESS }));
  }
}

/** The name of v1 in delegatecash. */
export { DelegateV1 as DelegateCash };

export type V2Delegation = {
  type: string;
  to: Address;
  from: Address;
  contract: Address;
  rights: Hex;
  tokenId: number;
  amount: number;
};

/** The options of @delegatexyz/sdk 0.6.0. */
export type DelegateV2Options = { userTransport: Service; chain?: Chain; isZkSync?: boolean };

/** The v2 registry, as DelegateV2 of @delegatexyz/sdk reads it. */
export class DelegateV2 {
  readonly #client: RegistryClient;
  readonly #chainId: number;

  constructor(service?: Service | DelegateV2Options, chain?: Chain) {
    const options = isOptions(service) ? service : { userTransport: service, chain };
    this.#client = toClient(options.userTransport);
    this.#chainId = options.chain?.id ?? 1;
  }

  checkDelegateForAll = (to: Address, from: Address, rights: Hex = EMPTY_RIGHTS): Promise<boolean> =>
    this.#client.v2.checkAll({ delegate: to, vault: from, rights, chainId: this.#chainId });

  checkDelegateForContract = (
    to: Address,
    from: Address,
    contract: Address,
    rights: Hex = EMPTY_RIGHTS,
  ): Promise<boolean> =>
    this.#client.v2.checkContract({ delegate: to, vault: from, contract, rights, chainId: this.#chainId });

  checkDelegateForERC721 = (
    to: Address,
    from: Address,
    contract: Address,
    tokenId: number | bigint,
    rights: Hex = EMPTY_RIGHTS,
  ): Promise<boolean> =>
    this.#client.v2.checkErc721({
      delegate: to,
      vault: from,
      contract,
      tokenId: toTokenId(tokenId),
      rights,
      chainId: this.#chainId,
    });

  checkDelegateForERC20 = async (
    to: Address,
    from: Address,
    contract: Address,
    rights: Hex = EMPTY_RIGHTS,
  ): Promise<number> => {
    const question = { delegate: to, vault: from, contract, rights, chainId: this.#chainId };
    return toNumber(await this.#client.v2.checkErc20(question), "v2.checkErc20()");
  };

  checkDelegateForERC1155 = async (
    to: Address,
    from: Address,
    contract: Address,
    tokenId: number | bigint,
    rights: Hex = EMPTY_RIGHTS,
  ): Promise<number> => {
    const wallets = { delegate: to, vault: from, chainId: this.#chainId };
    const question = { ...wallets, contract, tokenId: toTokenId(tokenId), rights };
    return toNumber(await this.#client.v2.checkErc1155(question), "v2.checkErc1155()");
  };

  getIncomingDelegations = async (to: Address): Promise<V2Delegation[]> =>
    (await this.#list(to)).filter((delegation) => isSame(delegation.to, to)).map(toV2Delegation);

  getOutgoingDelegations = async (from: Address): Promise<V2Delegation[]> =>
    (await this.#list(from)).filter((delegation) => isSame(delegation.from, from)).map(toV2Delegation);

  #list(wallet: Address): Promise<DelegationV2[]> {
    return this.#client.v2.delegations(wallet, { chainId: this.#chainId }).all();
  }
}

const isOptions = (service: Service | DelegateV2Options | undefined): service is DelegateV2Options =>
  typeof service === "object" && "userTransport" in service;

const isSame = (a: string | null, b: string): boolean => a?.toLowerCase() === b.toLowerCase();

const toV2Delegation = ({
  type,
  tokenStandard,
  to,
  from,
  contract,
  rights,
  tokenId,
  amount,
}: DelegationV2): V2Delegation => ({
  type: tokenStandard ?? type,
  to,
  from,
  contract: contract ?? ZERO_ADDRESS,
  rights,
  tokenId: toNumber(tokenId ?? 0n, "v2.delegations()"),
  amount: toNumber(amount ?? 0n, "v2.delegations()"),
});
