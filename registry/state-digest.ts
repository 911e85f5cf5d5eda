/**
 * The digest of a state is the sum of its delegations' SHA-256, modulo 2^256: whoever adds them up, in whatever
 * order and in how many parts, gets the same. docs/digest.md says it for others.
 */

/** How many words of 32 bits a hash is added up in, the highest first: Postgres has no integers of 256 bits. */
export const DIGEST_WORDS = 8;

/** What is hashed of a delegation, by its columns. Not when it was made: deployments may tell that otherwise. */
const LINE = "concat_ws(' ', chain_id, registry, type, vault, delegate, contract, token_id, rights, amount)";

/**
 * The sums of each word over some delegations, as SQL: an array, with nulls where there are none.
 * @param delegations a query, with the columns of `delegation_change`
 * @param by a column to add up by, if not all together
 */
export const sumDigests = (delegations: string, by?: "registry"): string => {
  const words = Array.from(
    { length: DIGEST_WORDS },
    (_, word) => `sum(('x' || substr(hash, ${word * 8 + 1}, 8))::bit(32)::bigint)`,
  );
  // "offset 0" has Postgres hash a delegation once, and not again for each word.
  return `
    select ${by ? `${by}, ` : ""}array[${words.join(", ")}] as sums
    from (select registry, encode(sha256(convert_to(${LINE}, 'UTF8')), 'hex') as hash from (${delegations}) delegation offset 0) hashed
    ${by ? `group by ${by}` : ""}`;
};
