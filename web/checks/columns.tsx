const COLUMNS: readonly (readonly [names: string, meaning: string])[] = [
  ["to, or delegate", "The hot wallet, which would act."],
  ["from, or vault", "The cold wallet."],
  ["registry", "v1 or v2. Without it, v2."],
  [
    "check",
    "all, contract, erc721, erc20 or erc1155; on v1 all, contract or token. Without it, contract if there is a contract, otherwise all. A token on v2 needs it.",
  ],
  ["contract, tokenId", "What the check is about. Token ids are exact, in decimal or hex."],
  ["rights", "On v2: without it, only full rights count."],
  ["chainId", "The network. Without it, 1."],
];

/** Explains the columns of a list. */
export const Columns = () => (
  <details>
    <summary>Which columns?</summary>
    <dl class="columns">
      {COLUMNS.map(([names, meaning]) => (
        <div key={names}>
          <dt class="mono">{names}</dt>
          <dd>{meaning}</dd>
        </div>
      ))}
    </dl>
    <p class="quiet">Other columns come back in the download as they are. Columns may have any order.</p>
  </details>
);
