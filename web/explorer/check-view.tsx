import { useEffect, useRef, useState } from "preact/hooks";
import { shorten } from "../shared/address.tsx";
import { FailureNotice } from "../shared/notice.tsx";
import { useAnswer } from "../shared/use-answer.ts";
import { CHECKS, type Check, checkOf, isBalance, type RegistryName, takes } from "./checks.ts";
import { Scope, When } from "./delegation-details.tsx";
import type { Explanation, Network } from "./json.ts";
import { addressOf, go } from "./location.ts";
import { NetworkNotice, networkTrouble } from "./network-notice.tsx";
import { complaint, isAddress, NetworkSelect } from "./search-form.tsx";
import { Freshness } from "./wallet-view.tsx";
import { amountLabel } from "./words.ts";

type Props = { query: URLSearchParams; networks: readonly Network[] | null; network: Network | null };

/** Asks a check, and says why the answer is what it is. */
export const CheckView = ({ query, networks, network }: Props) => {
  const asked = readQuestion(query);
  const isAsked = asked.from !== "" && asked.to !== "" && Object.keys(complaintsOf(asked)).length === 0;
  return (
    <>
      <header class="page-head">
        <h1>May this wallet act for that one?</h1>
        <p class="lead">
          Ask any of the eight checks. The answer is the registry's own, with the delegation that grants it.
        </p>
      </header>
      <div class="check">
        <CheckForm key={query.toString()} question={asked} networks={networks} network={network} />
        <div class="check-result">
          {!isAsked && <CheckRules />}
          {isAsked && networks && <CheckResult question={asked} networks={networks} network={network} />}
        </div>
      </div>
    </>
  );
};

/** How a check is answered, for whoever has not asked one yet. */
const CheckRules = () => (
  <section class="rules" aria-labelledby="rules-title">
    <h2 id="rules-title">How it is answered</h2>
    <dl>
      <dt>Broader covers narrower</dt>
      <dd>Who may act for the whole wallet may act for each contract in it; who may for a contract, for each token.</dd>
      <dt>All rights cover every right</dt>
      <dd>A delegation of one right counts for that right alone. Only v2 has rights.</dd>
      <dt>Amounts are exact</dt>
      <dd>ERC-20 and ERC-1155 checks answer with an amount. Under a broader delegation it is unlimited.</dd>
      <dt>Not known is not no</dt>
      <dd>Where the index is behind its network, there is no answer.</dd>
    </dl>
  </section>
);

type Question = {
  registry: RegistryName;
  check: Check;
  from: string;
  to: string;
  contract: string;
  tokenId: string;
  rights: string;
};

const FIELDS = ["to", "from", "contract", "tokenId", "rights"] as const;
type Field = (typeof FIELDS)[number];

const readQuestion = (query: URLSearchParams): Question => {
  const registry = query.get("registry") === "v1" ? "v1" : "v2";
  const value = (name: Field) => query.get(name)?.trim() ?? "";
  return {
    registry,
    check: checkOf(registry, query.get("type")),
    from: value("from"),
    to: value("to"),
    contract: value("contract"),
    tokenId: value("tokenId"),
    rights: value("rights"),
  };
};

/** What belongs to a question: the fields of other checks do not. */
const parametersOf = ({ registry, check, from, to, ...others }: Question) => ({
  registry,
  type: check.type,
  to,
  from,
  contract: takes(check, "contract") ? others.contract : "",
  tokenId: takes(check, "tokenId") ? others.tokenId : "",
  rights: registry === "v2" ? others.rights : "",
});

/** What is wrong, by field. */
const complaintsOf = ({ registry, check, ...values }: Question): Partial<Record<Field, string>> => {
  const found: Partial<Record<Field, string>> = {};
  for (const name of ["to", "from", ...(takes(check, "contract") ? (["contract"] as const) : [])] as const) {
    if (!isAddress(values[name])) found[name] = complaint(values[name]);
  }
  if (takes(check, "tokenId") && !/^(\d+|0x[0-9a-f]+)$/i.test(values.tokenId)) {
    found.tokenId = "A token id is a whole number, in decimal or as 0x and hex digits.";
  }
  if (registry === "v2" && !isRights(values.rights)) {
    found.rights = "A right is a text of at most 31 bytes, or 0x and 64 hex digits.";
  }
  return found;
};

const isRights = (text: string): boolean =>
  /^0x/i.test(text) ? /^0x([0-9a-f]{64})?$/i.test(text) : new TextEncoder().encode(text).length <= 31;

type FormProps = { question: Question; networks: readonly Network[] | null; network: Network | null };

const CheckForm = ({ question, networks, network }: FormProps) => {
  const [values, setValues] = useState(question);
  const [chainId, setChainId] = useState(network?.chainId);
  const [isComplaining, setComplaining] = useState(false);
  useEffect(() => setChainId(network?.chainId), [network?.chainId]);
  const complaints = isComplaining ? complaintsOf(values) : {};
  const { registry, check } = values;

  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const [first] = FIELDS.filter((name) => name in complaintsOf(values));
    setComplaining(first !== undefined);
    if (first) document.getElementById(first)?.focus();
    else go(addressOf({ view: "check", chainId, ...parametersOf(values) }));
  };
  const field = (name: Field, label: string, hint: string, placeholder: string) => (
    <TextField
      name={name}
      label={label}
      hint={hint}
      placeholder={placeholder}
      value={values[name]}
      error={complaints[name]}
      onInput={(text) => setValues({ ...values, [name]: text.trim() })}
    />
  );

  return (
    <form class="card check-form" noValidate onSubmit={submit} aria-label="Check">
      <fieldset class="field">
        <legend>Registry</legend>
        <div class="choices">
          {(["v2", "v1"] as const).map((name) => (
            <Choice
              key={name}
              group="registry"
              value={name}
              label={name}
              isChosen={name === registry}
              choose={() => setValues({ ...values, registry: name, check: checkOf(name, check.type) })}
            />
          ))}
        </div>
      </fieldset>
      <fieldset class="field">
        <legend>For what?</legend>
        <div class="choices">
          {CHECKS[registry].map((one) => (
            <Choice
              key={one.type}
              group="type"
              value={one.type}
              label={one.label}
              isChosen={one.type === check.type}
              choose={() => setValues({ ...values, check: one })}
            />
          ))}
        </div>
      </fieldset>
      {field("to", "Who would act?", "The hot wallet, or delegate", "0x…")}
      {field("from", "For whom?", "The cold wallet, or vault", "0x…")}
      {takes(check, "contract") && field("contract", "Contract", "Of the token or collection", "0x…")}
      {takes(check, "tokenId") && field("tokenId", "Token id", "", "8520")}
      {registry === "v2" && field("rights", "Right", "Optional: empty asks for all rights", "airdrop")}
      <div class="field">
        <label for="check-network">Network</label>
        <NetworkSelect id="check-network" networks={networks} value={chainId} onChange={setChainId} />
      </div>
      <button type="submit" class="button primary">
        Check
      </button>
    </form>
  );
};

type ChoiceProps = { group: string; value: string; label: string; isChosen: boolean; choose: () => void };

const Choice = ({ group, value, label, isChosen, choose }: ChoiceProps) => (
  <label class="choice">
    <input type="radio" name={group} value={value} checked={isChosen} onChange={choose} />
    <span>{label}</span>
  </label>
);

type TextFieldProps = {
  name: Field;
  label: string;
  hint: string;
  placeholder: string;
  value: string;
  error: string | undefined;
  onInput: (text: string) => void;
};

const TextField = ({ name, label, hint, placeholder, value, error, onInput }: TextFieldProps) => (
  <div class="field">
    <label for={name}>{label}</label>
    <input
      id={name}
      class="mono"
      name={name}
      value={value}
      placeholder={placeholder}
      autocomplete="off"
      autocapitalize="off"
      spellcheck={false}
      aria-invalid={error !== undefined}
      aria-describedby={error ? `${name}-error` : hint ? `${name}-hint` : undefined}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
    {error ? (
      <p id={`${name}-error`} class="error">
        {error}
      </p>
    ) : (
      hint && (
        <p id={`${name}-hint`} class="hint">
          {hint}
        </p>
      )
    )}
  </div>
);

type ResultProps = { question: Question; networks: readonly Network[]; network: Network | null };

const CheckResult = ({ question, networks, network }: ResultProps) => {
  const parameters = parametersOf(question);
  const trouble = networkTrouble(network);
  const path =
    trouble || !network ? null : `/explorer/explain${addressOf({ ...parameters, chainId: network.chainId }).slice(1)}`;
  const { answer, again } = useAnswer<Explanation>(path);
  if (trouble || !network) {
    const hrefOn = (chainId: number) => addressOf({ view: "check", chainId, ...parameters });
    return <NetworkNotice network={network} networks={networks} hrefOn={hrefOn} />;
  }
  if (answer === null) return <div class="card verdict skeleton" aria-hidden="true" />;
  if (answer.kind !== "answered") return <FailureNotice failure={answer} again={again} />;
  return <Verdict key={path} question={question} network={network} explanation={answer.value} />;
};

type VerdictProps = { question: Question; network: Network; explanation: Explanation };

const Verdict = ({ question, network, explanation }: VerdictProps) => {
  const { answer, grants, block } = explanation;
  const { registry, check } = question;
  const isYes = answer !== false && answer !== "0";
  const shown = useRef<HTMLElement>(null);
  // On a phone it is below the form.
  useEffect(() => shown.current?.scrollIntoView({ block: "nearest" }), []);
  return (
    <section ref={shown} class="card verdict" data-yes={isYes} aria-labelledby="verdict-title">
      <div role="status">
        <h2 id="verdict-title">{typeof answer === "string" ? amountLabel(answer) : answer ? "Yes" : "No"}</h2>
        <p class="sentence">{sentence(question, network, explanation)}</p>
      </div>
      <h3>{grants.length > 0 ? "Granted by" : "Why"}</h3>
      {grants.length > 0 ? (
        <ul class="grants">
          {grants.map((grant) => (
            <li key={[grant.type, grant.tokenStandard, grant.rights].join()}>
              <Scope delegation={grant} network={network} />
              <When place={grant.since} network={network} />
            </li>
          ))}
        </ul>
      ) : (
        <p>{noGrant(question)}</p>
      )}
      <footer>
        <Freshness block={block} network={network} />
        <p class="request">
          The same for programs: <code>{requestOf(registry, check, question, network)}</code>
        </p>
      </footer>
    </section>
  );
};

const sentence = (
  { check, to, from, contract, tokenId, rights }: Question,
  network: Network,
  { answer }: Explanation,
) => {
  const wallets = `for ${shorten(from)} on ${network.name}`;
  const right =
    rights === "" || /^0x0*$/i.test(rights)
      ? ""
      : ` with the right “${/^0x/i.test(rights) ? shorten(rights) : rights}”`;
  const what = check.describe(shorten(contract), tokenId);
  if (isBalance(check)) {
    return answer === "0"
      ? `${shorten(to)} may use nothing of ${what} ${wallets}${right}.`
      : `${shorten(to)} may use so much of ${what}, in its smallest unit, ${wallets}${right}.`;
  }
  return `${shorten(to)} may ${answer ? "" : "not "}act ${wallets}, for ${what}${right}.`;
};

const noGrant = ({ registry, check, rights }: Question): string => {
  const broader = { all: "", contract: " or the whole wallet", token: ", its contract or the whole wallet" }[
    check.breadth
  ];
  const scope = { all: "the whole wallet", contract: "this contract", token: "this token" }[check.breadth];
  const right = registry === "v1" ? "" : rights === "" ? " with all rights" : " with all rights or this one";
  return `No active delegation between the two in the ${registry} registry covers ${scope}${broader}${right}.`;
};

/** How a program asks the same. */
const requestOf = (registry: RegistryName, check: Check, question: Question, network: Network): string => {
  const { to, from, contract, tokenId, rights } = parametersOf(question);
  const names = check.isByDelegate ? { delegate: to, vault: from } : { to, from };
  const query = addressOf({ ...names, contract, tokenId, rights, chainId: network.chainId }).slice(1);
  return `${location.origin}/registry/${registry}/check/${check.type}${query}`;
};
