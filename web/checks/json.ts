// Responses of POST /registry/checks and /networks, as docs/api.md describes them.

type BlockJson = { number: number; final: boolean };

/** A result is true, false, or the digits of a balance. */
export type AnswerJson = { result?: boolean | string; problem?: { detail: string } };

/** `blocks`: by chain id. */
export type AnswersJson = { answers: readonly AnswerJson[]; blocks: Readonly<Record<string, BlockJson>> };

export type NetworkJson = {
  chainId: number;
  name: string;
  registries: { v1: string | null; v2: string | null };
  state: string;
};

export type NetworksJson = { networks: readonly NetworkJson[] };
