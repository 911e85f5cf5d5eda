import { useState } from "preact/hooks";
import { describeFailure, fetchJson } from "../shared/fetch-json.ts";
import { isSessionExpired, type NewWebhookJson } from "./json.ts";

type WebhookFormProps = { path: string; onMade: (webhook: NewWebhookJson) => void; onSessionExpired: () => void };

/** Parameters of the API for an address. */
const SIDES = { wallet: "on either side", vault: "as the vault", delegate: "as the delegate" } as const;

const EMPTY = { url: "", side: "wallet", address: "", contract: "", chains: "", finality: "final" };

export const WebhookForm = ({ path, onMade, onSessionExpired }: WebhookFormProps) => {
  const [values, setValues] = useState(EMPTY);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const bind = (name: keyof typeof EMPTY) => ({
    id: `webhook-${name}`,
    value: values[name],
    onInput: ({ currentTarget }: { currentTarget: HTMLInputElement | HTMLSelectElement }) =>
      setValues({ ...values, [name]: currentTarget.value }),
  });

  const makeWebhook = async (event: Event) => {
    event.preventDefault();
    const { url, side, address, contract, chains, finality } = values;
    const chainId = chains.split(/[\s,]+/).filter(Boolean);
    const filters = {
      ...(address.trim() && { [side]: address.trim() }),
      ...(contract.trim() && { contract: contract.trim() }),
      ...(chainId.length > 0 && { chainId }),
    };
    setBusy(true);
    setError(null);
    const body = { url: url.trim(), finality, ...filters };
    const result = await fetchJson<NewWebhookJson>(path, { method: "POST", body });
    setBusy(false);
    if (result.kind === "ok") {
      setValues(EMPTY);
      onMade(result.value);
    } else if (isSessionExpired(result)) onSessionExpired();
    else setError(describeFailure(result));
  };

  return (
    <form class="new-webhook card" onSubmit={makeWebhook} noValidate>
      <div class="field wide">
        <label for="webhook-url">URL of your server</label>
        <input {...bind("url")} type="url" autocomplete="off" placeholder="https://example.com/delegations" />
      </div>
      <div class="field">
        <label for="webhook-address">Wallet</label>
        <input {...bind("address")} class="mono" autocomplete="off" spellcheck={false} placeholder="any" />
      </div>
      <div class="field">
        <label for="webhook-side">Its side</label>
        <select {...bind("side")}>
          {Object.entries(SIDES).map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for="webhook-contract">Contract</label>
        <input {...bind("contract")} class="mono" autocomplete="off" spellcheck={false} placeholder="any" />
      </div>
      <div class="field">
        <label for="webhook-chains">Networks</label>
        <input {...bind("chains")} autocomplete="off" placeholder="all, or chain ids: 1, 8453" />
      </div>
      <div class="field">
        <label for="webhook-finality">When</label>
        <select {...bind("finality")}>
          <option value="final">when it is final</option>
          <option value="latest">at once, with undos</option>
        </select>
      </div>
      <button type="submit" class="button primary" disabled={isBusy}>
        Make a webhook
      </button>
      {error !== null && (
        <p class="error-line wide" role="alert">
          {error}
        </p>
      )}
    </form>
  );
};
