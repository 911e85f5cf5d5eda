import { useState } from "preact/hooks";
import { describeFailure, fetchJson } from "../shared/fetch-json.ts";
import { isSessionExpired, type NewKeyJson } from "./json.ts";

type NewKeyFormProps = { onMade: (key: NewKeyJson) => void; onSessionExpired: () => void };

export const NewKeyForm = ({ onMade, onSessionExpired }: NewKeyFormProps) => {
  const [name, setName] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);

  const makeKey = async (event: Event) => {
    event.preventDefault();
    if (name.trim() === "") {
      setError("Give it a name first, for example that of the program that will use it.");
      return;
    }
    setBusy(true);
    setError(null);
    const result = await fetchJson<NewKeyJson>("/developers/api/keys", { method: "POST", body: { name } });
    setBusy(false);
    if (result.kind === "ok") {
      setName("");
      onMade(result.value);
    } else if (isSessionExpired(result)) onSessionExpired();
    else setError(describeFailure(result));
  };

  return (
    <form class="new-key" onSubmit={makeKey} noValidate>
      <div class="field">
        <label for="key-name">Name of a new key</label>
        <input
          id="key-name"
          maxLength={64}
          autocomplete="off"
          placeholder="Example app"
          value={name}
          aria-invalid={error !== null}
          aria-describedby={error === null ? undefined : "key-name-error"}
          onInput={({ currentTarget }) => setName(currentTarget.value)}
        />
        {error !== null && (
          <p class="error" id="key-name-error" role="alert">
            {error}
          </p>
        )}
      </div>
      <button type="submit" class="button primary" disabled={isBusy}>
        Make a key
      </button>
    </form>
  );
};
