// The digest of a state is the sum of its delegations' SHA-256, modulo 2^256. The order of the delegations does not
// matter, and neither does adding them in parts. docs/digest.md defines it for other implementations.

/** Words of 32 bits in a hash, each summed separately, the highest first: Postgres has no integers of 256 bits. */
export const DIGEST_WORDS = 8;

/** The hashed columns of a delegation. They exclude its time, which can differ between deployments. */
const HASHED_LINE = "concat_ws(' ', chain_id, registry, type, vault, delegate, contract, token_id, rights, amount)";

/**
 * Builds the SQL query for the sums of each word over delegations: an array, of nulls if there are no delegations.
 * @param delegations a query with the columns of `delegation_change`
 * @param by a column to group by
 */
export const sumDigests = (delegations: string, by?: "registry"): string => {
  const words = Array.from(
    { length: DIGEST_WORDS },
    (_, word) => `sum(('x' || substr(hash, ${word * 8 + 1}, 8))::bit(32)::bigint)`,
  );
  // "offset 0" makes Postgres hash a delegation once instead of once per word.
  return `
    select ${by ? `${by}, ` : ""}array[${words.join(", ")}] as sums
    from (select registry, encode(sha256(convert_to(${HASHED_LINE}, 'UTF8')), 'hex') as hash from (${delegations}) delegation offset 0) hashed
    ${by ? `group by ${by}` : ""}`;
};
