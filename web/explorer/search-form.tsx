import { useEffect, useState } from "preact/hooks";
import type { Network } from "./json.ts";
import { addressOf, go } from "./location.ts";
import { isIndexed } from "./use-networks.ts";

export const isAddress = (text: string): boolean => /^0x[0-9a-f]{40}$/i.test(text);

type NetworkSelectProps = {
  id: string;
  networks: readonly Network[] | null;
  value: number | undefined;
  onChange: (chainId: number) => void;
};

/** Those that are indexed here come first. The others can be chosen too, and are told to be not. */
export const NetworkSelect = ({ id, networks, value, onChange }: NetworkSelectProps) => {
  const option = ({ chainId, name }: Network) => (
    <option key={chainId} value={chainId} selected={chainId === value}>
      {name}
    </option>
  );
  const others = networks?.filter((network) => !isIndexed(network)) ?? [];
  return (
    <select
      id={id}
      name="chainId"
      disabled={!networks}
      onChange={(event) => onChange(Number(event.currentTarget.value))}
    >
      {networks?.filter(isIndexed).map(option)}
      {others.length > 0 && <optgroup label="Not indexed here">{others.map(option)}</optgroup>}
    </select>
  );
};

type SearchFormProps = {
  networks: readonly Network[] | null;
  network: Network | null;
  wallet: string;
  view: string;
};

/** Which wallet, on which network. */
export const SearchForm = ({ networks, network, wallet, view }: SearchFormProps) => {
  const [text, setText] = useState(wallet);
  const [error, setError] = useState("");
  useEffect(() => {
    setText(wallet);
    setError("");
  }, [wallet]);

  const submit = (chainId: number | undefined) => {
    const given = text.trim();
    if (!isAddress(given)) {
      setError(complaint(given));
      return false;
    }
    setError("");
    go(addressOf({ wallet: given, chainId, view }));
    return true;
  };
  return (
    <search>
      <form
        class="search"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!submit(network?.chainId)) document.getElementById("wallet")?.focus();
        }}
      >
        <div class="field">
          <label for="wallet">Wallet</label>
          <input
            id="wallet"
            class="mono"
            name="wallet"
            value={text}
            placeholder="0x…"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            aria-invalid={error !== ""}
            aria-describedby={error ? "wallet-error" : undefined}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          {error && (
            <p id="wallet-error" class="error" role="alert">
              {error}
            </p>
          )}
        </div>
        <div class="field">
          <label for="network">Network</label>
          <NetworkSelect
            id="network"
            networks={networks}
            value={network?.chainId}
            onChange={(chainId) => {
              // With a wallet at hand, choosing is asking.
              if (text.trim() === "" || !submit(chainId)) go(addressOf({ chainId, wallet, view: wallet && view }));
            }}
          />
        </div>
        <button type="submit" class="button primary">
          Look up
        </button>
      </form>
    </search>
  );
};

export const complaint = (text: string): string => {
  if (text === "") return "Paste the address of a wallet.";
  if (/\.\w+$/.test(text))
    return "Names cannot be looked up here. Paste the address that it stands for: 0x and 40 hex digits.";
  return "An address is 0x and 40 hex digits.";
};
