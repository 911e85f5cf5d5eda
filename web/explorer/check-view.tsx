import type { Network } from "../../client/src/index.ts";
import { CheckForm } from "./check-form.tsx";
import { findFieldErrors, readCheckInput } from "./check-input.ts";
import { CheckResult } from "./check-result.tsx";

type CheckViewProps = { query: URLSearchParams; networks: readonly Network[] | null; network: Network | null };

/** Runs a check and explains its answer. */
export const CheckView = ({ query, networks, network }: CheckViewProps) => {
  const input = readCheckInput(query);
  const isValid = Object.keys(findFieldErrors(input)).length === 0;
  return (
    <>
      <header class="page-head">
        <h1>May this wallet act for that one?</h1>
        <p class="lead">
          Run any of the eight checks. The answer is the registry's own, with the delegation that grants it.
        </p>
      </header>
      <div class="check">
        <CheckForm key={query.toString()} input={input} networks={networks} network={network} />
        <div class="check-result">
          {!isValid && <CheckRules />}
          {isValid && networks && <CheckResult input={input} networks={networks} network={network} />}
        </div>
      </div>
    </>
  );
};

const CheckRules = () => (
  <section class="rules" aria-labelledby="rules-title">
    <h2 id="rules-title">How checks work</h2>
    <dl>
      <dt>Broader covers narrower</dt>
      <dd>
        A delegate of the whole wallet may act for each contract in it. A delegate of a contract may act for each of its
        tokens.
      </dd>
      <dt>All rights cover every right</dt>
      <dd>A delegation of one right counts for that right only. Only v2 has rights.</dd>
      <dt>Amounts are exact</dt>
      <dd>ERC-20 and ERC-1155 checks answer with an amount. Under a broader delegation it is unlimited.</dd>
      <dt>“Not known” is not “no”</dt>
      <dd>While the index is behind its network, there is no answer.</dd>
    </dl>
  </section>
);
