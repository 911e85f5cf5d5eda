import { useEffect, useRef } from "preact/hooks";
import type { Network, Vault, WalletPage } from "../../client/src/index.ts";
import type { Question } from "../../client/src/questions.ts";
import { shortenHex } from "../shared/address.tsx";
import { amountLabel } from "../shared/labels.ts";
import { FailureNotice } from "../shared/notice.tsx";
import { readPage } from "../shared/registry.ts";
import { useRegistry } from "../shared/use-registry.ts";
import { buildParameters, type CheckInput } from "./check-input.ts";
import { describeScopes, describeSubject } from "./checks.ts";
import { AsOfBlock, Scope, TransactionTime } from "./delegation-details.tsx";
import { buildUrl, toAddress, toScope } from "./location.ts";
import { isAnswerable, NetworkNotice } from "./network-notice.tsx";
import { Prove } from "./prove.tsx";

type CheckResultProps = { input: CheckInput; networks: readonly Network[]; network: Network | null };

export const CheckResult = ({ input, networks, network }: CheckResultProps) => {
  const parameters = buildParameters(input);
  const question = isAnswerable(network) ? JSON.stringify([network.chainId, parameters]) : null;
  const { result, retry } = useRegistry(question, (registry, signal) =>
    readPage(
      registry.vaults(toAddress(input.to), {
        chainId: network?.chainId,
        registry: input.registry,
        check: input.check.name,
        vault: toAddress(input.from),
        ...toScope(parameters),
        signal,
      }),
    ),
  );
  if (!isAnswerable(network)) {
    const urlOn = (chainId: number) => buildUrl({ view: "check", chainId, ...parameters });
    return <NetworkNotice network={network} networks={networks} urlOn={urlOn} />;
  }
  if (result === null) return <div class="card verdict skeleton" aria-hidden="true" />;
  if (result.kind !== "ok") return <FailureNotice failure={result} retry={retry} />;
  return <Verdict key={question} input={input} network={network} page={result.value} />;
};

type VerdictProps = { input: CheckInput; network: Network; page: WalletPage<Vault> };

const Verdict = ({ input, network, page }: VerdictProps) => {
  const [vault] = page.rows;
  const grants = vault?.delegations ?? [];
  const answer = input.check.returns === "balance" ? (vault?.amount ?? 0n) : vault !== undefined;
  const block = page.blocks[network.chainId];
  const isYes = answer !== false && answer !== 0n;
  const section = useRef<HTMLElement>(null);
  // On a phone the answer is below the form.
  useEffect(() => section.current?.scrollIntoView({ block: "nearest" }), []);
  return (
    <section ref={section} class="card verdict" data-yes={isYes} aria-labelledby="verdict-title">
      <div role="status">
        <h2 id="verdict-title">{typeof answer === "bigint" ? amountLabel(answer) : answer ? "Yes" : "No"}</h2>
        <p class="sentence">{describeAnswer(input, network, answer)}</p>
      </div>
      <h3>{grants.length > 0 ? "Granted by" : "Why"}</h3>
      {grants.length > 0 ? (
        <ul class="grants">
          {grants.map((grant) => (
            <li key={[grant.type, grant.tokenStandard, grant.rights].join()}>
              <Scope delegation={grant} network={network} />
              <TransactionTime transaction={grant} network={network} />
            </li>
          ))}
        </ul>
      ) : (
        <p>{describeMissingGrant(input)}</p>
      )}
      <Prove url={buildRequestUrl(input, network)} question={toQuestion(input, network)} network={network} />
      <footer>
        {block && <AsOfBlock block={block} network={network} />}
        <p class="request">
          The same check through the API: <code>{buildRequestUrl(input, network)}</code>
        </p>
      </footer>
    </section>
  );
};

const describeAnswer = (
  { check, to, from, contract, tokenId, rights }: CheckInput,
  network: Network,
  answer: boolean | bigint,
): string => {
  const wallets = `for ${shortenHex(from)} on ${network.name}`;
  const right =
    rights === "" || /^0x0*$/i.test(rights)
      ? ""
      : ` with the right “${/^0x/i.test(rights) ? shortenHex(rights) : rights}”`;
  const subject = describeSubject(check, shortenHex(contract), tokenId);
  if (check.returns === "balance") {
    return answer === 0n
      ? `${shortenHex(to)} may use nothing of ${subject} ${wallets}${right}.`
      : `${shortenHex(to)} may use this amount of ${subject}, in its smallest unit, ${wallets}${right}.`;
  }
  return `${shortenHex(to)} may ${answer ? "" : "not "}act ${wallets}, for ${subject}${right}.`;
};

const describeMissingGrant = ({ registry, check, rights }: CheckInput): string => {
  const right = registry === "v1" ? "" : rights === "" ? " with all rights" : " with all rights or this one";
  return `No active delegation between the two in the ${registry} registry covers ${describeScopes(check)}${right}.`;
};

const toQuestion = (input: CheckInput, { chainId }: Network): Question => {
  const { to, from, contract, tokenId, rights } = buildParameters(input);
  return {
    registry: input.registry,
    check: input.check.name,
    delegate: toAddress(to),
    vault: toAddress(from),
    ...(contract !== "" && { contract: toAddress(contract) }),
    ...(tokenId !== "" && { tokenId: String(BigInt(tokenId)) }),
    ...(rights !== "" && { rights }),
    chainId,
  };
};

const buildRequestUrl = (input: CheckInput, network: Network): string => {
  const { to, from, contract, tokenId, rights } = buildParameters(input);
  const { path, wallets } = input.check;
  const [hot, cold] = wallets;
  const query = buildUrl({ [hot]: to, [cold]: from, contract, tokenId, rights, chainId: network.chainId }).slice(1);
  return `${location.origin}${path}${query}`;
};
