import { BALANCES, type Checks } from "./checks.ts";

/** 0x and hex digits. */
export type Hex = `0x${string}`;
export type Address = Hex;

/** A right: bytes32, or a text of at most 31 bytes. */
export type Rights = Hex | (string & {});

/** A whole number: exact, so a `number` up to 2^53. */
export type Integer = bigint | number;

/** The state to ask about; without it, the newest one. */
export type AtBlock = {
  /** The state after a past block, or after the newest final one. */
  block?: Integer | "finalized";
  /** The newest state, but of an index that has reached this block. */
  minBlock?: Integer;
};

type Common = AtBlock & {
  /** 1, Ethereum, by default. */
  chainId?: number;
  signal?: AbortSignal;
};

type Wallets = {
  /** The hot wallet, which would act. */
  delegate: Address;
  /** The cold wallet, for which it would act. */
  vault: Address;
};
type Fields = {
  contract: Address;
  tokenId: Integer;
  /** Full rights count for any. Without it, only full rights count. */
  rights?: Rights;
};

export type RegistryVersion = keyof Checks;

/** The parameters of each check. */
export type CheckParameters = {
  [Version in RegistryVersion]: {
    [Name in keyof Checks[Version]]: Checks[Version][Name] extends { takes: infer Taken extends keyof Fields }
      ? Wallets & Pick<Fields, Taken> & Common
      : never;
  };
};

export type CheckName = { [Version in RegistryVersion]: keyof Checks[Version] }[RegistryVersion];

/** A check of any kind. */
export type Check = {
  [Version in RegistryVersion]: {
    [Name in keyof CheckParameters[Version]]: { registry: Version; check: Name } & Omit<
      CheckParameters[Version][Name],
      keyof AtBlock | "signal"
    >;
  }[keyof CheckParameters[Version]];
}[RegistryVersion];

/** A check as it is sent: numbers in digits. */
export type Question = {
  registry: RegistryVersion;
  check: CheckName;
  delegate: Address;
  vault: Address;
  contract?: Address;
  tokenId?: string;
  rights?: string;
  chainId: number;
};

/** Writes a whole number in digits. */
export const toDigits = (value: Integer): string => {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new RangeError(`${value} is not exact: use a bigint.`);
  }
  return String(value);
};

/** A check with the parameters of any kind. */
export type AnyCheck = Omit<Question, "tokenId" | "chainId"> & { tokenId?: Integer; chainId?: number };

export const toQuestion = (asked: AnyCheck): Question => {
  const { registry, check, delegate, vault, contract, tokenId, rights, chainId = 1 } = asked;
  return {
    registry,
    check,
    delegate,
    vault,
    ...(contract !== undefined && { contract }),
    ...(tokenId !== undefined && { tokenId: toDigits(tokenId) }),
    ...(rights !== undefined && { rights }),
    chainId,
  };
};

/** The state as parameters of a request. */
export const toBlockParameters = ({ block, minBlock }: AtBlock): { block?: string; minBlock?: string } => ({
  ...(block !== undefined && { block: block === "finalized" ? block : toDigits(block) }),
  ...(minBlock !== undefined && { minBlock: toDigits(minBlock) }),
});

/** Checks an address that becomes a part of a path. */
export const toPathAddress = (address: Address): Address => {
  if (!/^0x[0-9a-f]{40}$/i.test(address)) throw new RangeError(`${JSON.stringify(address)} is not an address.`);
  return address;
};

export const isBalance = (check: CheckName): boolean => BALANCES.includes(check);
