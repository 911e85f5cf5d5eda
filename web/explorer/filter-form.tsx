import type { TargetedEvent } from "preact";
import { useState } from "preact/hooks";
import { buildUrl, type Filter, navigate, type WalletViewName } from "./location.ts";
import { isAddress } from "./search-form.tsx";
import type { NetworkChoice } from "./use-networks.ts";

type FilterFormProps = { wallet: string; choice: NetworkChoice; filter: Filter; view: WalletViewName };

type Field = {
  name: keyof Filter;
  label: string;
  placeholder: string;
  isTime?: true;
  isBad: (text: string) => boolean;
};

const CONTRACT: Field = { name: "contract", label: "Contract", placeholder: "0x…", isBad: (text) => !isAddress(text) };
const TOKEN: Field = {
  name: "tokenId",
  label: "Token id",
  placeholder: "8520",
  isBad: (text) => !/^(\d+|0x[0-9a-f]+)$/i.test(text),
};
const RIGHTS: Field = {
  name: "rights",
  label: "Right",
  placeholder: "airdrop",
  isBad: (text) => new TextEncoder().encode(text).length > 66,
};
const BLOCK: Field = {
  name: "block",
  label: "At block",
  placeholder: "newest",
  isBad: (text) => !/^(\d+|finalized)$/.test(text),
};
/** A block number is another time on each network. */
const TIME: Field = {
  name: "time",
  label: "At time (UTC)",
  placeholder: "",
  isTime: true,
  isBad: (text) => Number.isNaN(Date.parse(`${text}Z`)),
};

/** Limits a wallet's lists to a contract or token, and looks back. */
export const FilterForm = ({ wallet, choice, filter, view }: FilterFormProps) => {
  const [values, setValues] = useState(filter);
  const [bad, setBad] = useState<Field | null>(null);
  const fields = [...(view === "history" ? [] : [CONTRACT, TOKEN, RIGHTS]), choice.chainId === "all" ? TIME : BLOCK];
  const isSet = fields.some(({ name }) => filter[name] !== "");
  const go = (chosen: Partial<Filter>) => navigate(buildUrl({ wallet, chainId: choice.chainId, view, ...chosen }));
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const needsContract = values.contract === "" && values.tokenId !== "" ? CONTRACT : null;
    const firstBad = fields.find(({ name, isBad }) => values[name] !== "" && isBad(values[name])) ?? needsContract;
    setBad(firstBad);
    if (firstBad) document.getElementById(`filter-${firstBad.name}`)?.focus();
    else go(Object.fromEntries(fields.map(({ name }) => [name, values[name]])));
  };
  return (
    <details class="filter" open={isSet}>
      <summary>{view === "history" ? "Look back" : "For a contract or token, or at a past block"}</summary>
      <form noValidate onSubmit={submit} aria-label="Filter">
        {fields.map(({ name, label, placeholder, isTime }) => {
          const attributes = {
            id: `filter-${name}`,
            class: "mono",
            value: values[name],
            placeholder,
            autocomplete: "off",
            spellcheck: false,
            "aria-invalid": bad?.name === name,
            "aria-describedby": bad?.name === name ? "filter-error" : undefined,
            onInput: (event: TargetedEvent<HTMLInputElement>) =>
              setValues({ ...values, [name]: event.currentTarget.value.trim() }),
          } as const;
          return (
            <div key={name} class="field">
              <label for={attributes.id}>{label}</label>
              {isTime ? <input {...attributes} type="datetime-local" /> : <input {...attributes} type="text" />}
            </div>
          );
        })}
        <button type="submit" class="button">
          Apply
        </button>
        {isSet && (
          <button type="button" class="button" onClick={() => go({})}>
            Clear
          </button>
        )}
        {bad && (
          <p id="filter-error" class="error" role="alert">
            {bad.label}: {values[bad.name] === "" ? "a token is one of a contract." : "this is not valid."}
          </p>
        )}
      </form>
    </details>
  );
};
