import { useEffect, useState } from "preact/hooks";
import type { Network } from "../../client/src/index.ts";
import { checksOf, takes } from "../../registry/checks.ts";
import { buildParameters, type CheckInput, FIELD_NAMES, type FieldName, findFieldErrors } from "./check-input.ts";
import { chooseCheck } from "./checks.ts";
import { buildUrl, navigate } from "./location.ts";
import { NetworkSelect } from "./search-form.tsx";

type CheckFormProps = {
  input: CheckInput;
  networks: readonly Network[] | null;
  network: Network | null;
};

export const CheckForm = ({ input, networks, network }: CheckFormProps) => {
  const [values, setValues] = useState(input);
  const [chainId, setChainId] = useState(network?.chainId);
  const [isShowingErrors, setShowingErrors] = useState(false);
  useEffect(() => setChainId(network?.chainId), [network?.chainId]);
  const errors = isShowingErrors ? findFieldErrors(values) : {};
  const { registry, check } = values;

  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const firstBad = FIELD_NAMES.find((name) => name in findFieldErrors(values));
    setShowingErrors(firstBad !== undefined);
    if (firstBad) document.getElementById(firstBad)?.focus();
    else navigate(buildUrl({ view: "check", chainId, ...buildParameters(values) }));
  };
  const renderField = (name: FieldName, label: string, hint: string, placeholder: string) => (
    <TextField
      name={name}
      label={label}
      hint={hint}
      placeholder={placeholder}
      value={values[name]}
      error={errors[name]}
      onInput={(text) => setValues({ ...values, [name]: text.trim() })}
    />
  );

  return (
    <form class="card check-form" noValidate onSubmit={submit} aria-label="Check">
      <fieldset class="field">
        <legend>Registry</legend>
        <div class="choices">
          {(["v2", "v1"] as const).map((name) => (
            <RadioButton
              key={name}
              group="registry"
              value={name}
              label={name}
              isChecked={name === registry}
              onSelect={() => setValues({ ...values, registry: name, check: chooseCheck(name, check.name) })}
            />
          ))}
        </div>
      </fieldset>
      <fieldset class="field">
        <legend>For what?</legend>
        <div class="choices">
          {checksOf(registry).map((option) => (
            <RadioButton
              key={option.name}
              group="type"
              value={option.name}
              label={option.label}
              isChecked={option.name === check.name}
              onSelect={() => setValues({ ...values, check: option })}
            />
          ))}
        </div>
      </fieldset>
      {renderField("to", "Who would act?", "The hot wallet, or delegate", "0x…")}
      {renderField("from", "For whom?", "The cold wallet, or vault", "0x…")}
      {takes(check, "contract") && renderField("contract", "Contract", "Of the token or collection", "0x…")}
      {takes(check, "tokenId") && renderField("tokenId", "Token id", "", "8520")}
      {takes(check, "rights") && renderField("rights", "Right", "Optional: leave empty for all rights", "airdrop")}
      <div class="field">
        <label for="check-network">Network</label>
        <NetworkSelect
          id="check-network"
          networks={networks}
          value={chainId}
          onChange={(chainId) => chainId !== "all" && setChainId(chainId)}
        />
      </div>
      <button type="submit" class="button primary">
        Check
      </button>
    </form>
  );
};

type RadioButtonProps = { group: string; value: string; label: string; isChecked: boolean; onSelect: () => void };

const RadioButton = ({ group, value, label, isChecked, onSelect }: RadioButtonProps) => (
  <label class="choice">
    <input type="radio" name={group} value={value} checked={isChecked} onChange={onSelect} />
    <span>{label}</span>
  </label>
);

type TextFieldProps = {
  name: FieldName;
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
