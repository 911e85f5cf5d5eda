import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { describeFailure, fetchJson } from "../shared/fetch-json.ts";
import { isSessionExpired, type ListedKeyJson } from "./json.ts";

type RevokeDialogProps = {
  target: ListedKeyJson;
  onRevoked: () => void;
  onCancel: () => void;
  onSessionExpired: () => void;
};

/** Asks for confirmation, because revoking cannot be undone. */
export const RevokeDialog = ({
  target: { name, prefix },
  onRevoked,
  onCancel,
  onSessionExpired,
}: RevokeDialogProps) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  // Opens before the next paint, so that the next key press goes to the dialog.
  useLayoutEffect(() => dialog.current?.showModal(), []);

  const revoke = async () => {
    setBusy(true);
    const result = await fetchJson(`/developers/api/keys/${prefix}`, { method: "DELETE" });
    setBusy(false);
    if (result.kind === "ok") {
      // Closes first: elements behind an open dialog cannot take the focus.
      dialog.current?.close();
      onRevoked();
    } else if (isSessionExpired(result)) onSessionExpired();
    else setError(describeFailure(result));
  };

  return (
    <dialog ref={dialog} class="card" aria-labelledby="revoke-title" onClose={onCancel}>
      <h2 id="revoke-title">Revoke “{name}”?</h2>
      <p>
        Programs that use <code>{prefix}…</code> stop working within a minute. This cannot be undone.
      </p>
      {error && (
        <p class="error-line" role="alert">
          {error}
        </p>
      )}
      <div class="actions">
        <button type="button" class="button" onClick={() => dialog.current?.close()}>
          Keep it
        </button>
        <button type="button" class="button danger" disabled={isBusy} onClick={revoke}>
          Revoke key
        </button>
      </div>
    </dialog>
  );
};
