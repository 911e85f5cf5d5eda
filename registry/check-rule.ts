import { maxUint256 } from "viem";
import { FULL_RIGHTS, NO_CONTRACT, NO_TOKEN } from "./delegation.ts";
import type { RegistryVersion } from "./networks.ts";

export const CHECKS = {
  v1: ["all", "contract", "token"],
  v2: ["all", "contract", "erc721", "erc20", "erc1155"],
} as const satisfies Record<RegistryVersion, readonly string[]>;

export type Check = (typeof CHECKS)[RegistryVersion][number];

/**
 * A delegation of exactly this scope. One probe of the primary key, however many delegations the two
 * wallets have. In v2, full rights count for any rights that are asked for.
 */
const delegation = (relation: string, version: RegistryVersion, type: string, contract: string, tokenId: string) =>
  `from ${relation} d
   where d.chain_id = q.chain_id and d.vault = q.vault and d.delegate = q.delegate
     and d.type = '${type}' and d.contract = ${contract} and d.token_id = ${tokenId}
     ${version === "v2" ? `and d.rights = any (array['${FULL_RIGHTS}', q.rights])` : ""}`;

/**
 * The registry's rule for a check, as SQL: a broader delegation satisfies a narrower one.
 * @param relation what holds the delegations, with the columns of `delegation_v1` or `delegation_v2`. The
 * question is `q`: chain_id, vault, delegate, contract, token_id, rights.
 */
export const checkRule = (relation: string, version: RegistryVersion, check: Check): string => {
  const held = (type: string, contract: string, tokenId: string) =>
    `exists (select ${delegation(relation, version, type, contract, tokenId)})`;
  const all = held("ALL", `'${NO_CONTRACT}'`, `${NO_TOKEN}`);
  const contract = `${all} or ${held("CONTRACT", "q.contract", `${NO_TOKEN}`)}`;
  const balance = (type: string, tokenId: string) =>
    `case when ${contract} then ${maxUint256}
     else coalesce((select max(d.amount) ${delegation(relation, version, type, "q.contract", tokenId)}), 0) end`;

  switch (check) {
    case "all":
      return all;
    case "contract":
      return contract;
    case "token":
      return `${contract} or ${held("TOKEN", "q.contract", "q.token_id")}`;
    case "erc721":
      return `${contract} or ${held("ERC721", "q.contract", "q.token_id")}`;
    case "erc20":
      return balance("ERC20", `${NO_TOKEN}`);
    case "erc1155":
      return balance("ERC1155", "q.token_id");
  }
};
