import { useEffect, useState } from "preact/hooks";
import type { Network } from "../../client/src/index.ts";
import { buildUrl, navigate } from "./location.ts";
import { isIndexed } from "./use-networks.ts";

export const isAddress = (text: string): boolean => /^0x[0-9a-f]{40}$/i.test(text);

type NetworkSelectProps = {
  id: string;
  networks: readonly Network[] | null;
  value: number | "all" | undefined;
  /** Offers all networks together. */
  hasAll?: boolean;
  onChange: (chainId: number | "all") => void;
};

/** A select of all networks: the indexed ones first, the others in a group of their own. */
export const NetworkSelect = ({ id, networks, value, hasAll = false, onChange }: NetworkSelectProps) => {
  const renderOption = ({ chainId, name }: Network) => (
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
      onChange={({ currentTarget: { value } }) => onChange(value === "all" ? value : Number(value))}
    >
      {hasAll && networks && networks.filter(isIndexed).length > 1 && (
        <option value="all" selected={value === "all"}>
          All networks
        </option>
      )}
      {networks?.filter(isIndexed).map(renderOption)}
      {others.length > 0 && <optgroup label="Not indexed here">{others.map(renderOption)}</optgroup>}
    </select>
  );
};

type SearchFormProps = {
  networks: readonly Network[] | null;
  /** The chosen network. */
  chainId: number | "all" | undefined;
  wallet: string;
  view: string;
  /** Parameters of the view to keep. */
  filter: Record<string, string>;
};

export const SearchForm = ({ networks, chainId: chosen, wallet, view, filter }: SearchFormProps) => {
  const [text, setText] = useState(wallet);
  const [error, setError] = useState("");
  useEffect(() => {
    setText(wallet);
    setError("");
  }, [wallet]);

  /** @returns false if the address is not valid */
  const submit = (chainId: number | "all" | undefined): boolean => {
    const address = text.trim();
    if (!isAddress(address)) {
      setError(describeBadAddress(address));
      return false;
    }
    setError("");
    navigate(
      buildUrl({ wallet: address, chainId, view, ...filter, ...(chainId !== chosen && { block: "", time: "" }) }),
    );
    return true;
  };
  return (
    <search>
      <form
        class="search"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!submit(chosen)) document.getElementById("wallet")?.focus();
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
            value={chosen}
            hasAll
            onChange={(chainId) => {
              // With a wallet entered, choosing a network looks it up.
              if (text.trim() === "" || !submit(chainId)) navigate(buildUrl({ chainId, wallet, view: wallet && view }));
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

export const describeBadAddress = (text: string): string => {
  if (text === "") return "Paste the address of a wallet.";
  if (/\.\w+$/.test(text)) return "Names cannot be looked up here. Paste the address instead: 0x and 40 hex digits.";
  return "An address is 0x and 40 hex digits.";
};
