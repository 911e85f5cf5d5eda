import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask } from "../shared/ask.ts";
import { describeFailure, isSessionOver, type Key } from "./answers.ts";

type RevokeProps = { target: Key; onDone: () => void; onCancel: () => void; onSessionOver: () => void };

/** Asks once more before a key is ended, which cannot be undone. */
export const Revoke = ({ target: { name, prefix }, onDone, onCancel, onSessionOver }: RevokeProps) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  // Before anything is painted: a key that is pressed next is for the dialog.
  useLayoutEffect(() => dialog.current?.showModal(), []);

  const revoke = async () => {
    setBusy(true);
    const answer = await ask(`/developers/api/keys/${prefix}`, { method: "DELETE" });
    setBusy(false);
    if (answer.kind === "answered") {
      // First, as nothing behind it can have the focus before.
      dialog.current?.close();
      onDone();
    } else if (isSessionOver(answer)) onSessionOver();
    else setError(describeFailure(answer));
  };

  return (
    <dialog ref={dialog} class="card" aria-labelledby="revoke-title" onClose={onCancel}>
      <h2 id="revoke-title">Revoke “{name}”?</h2>
      <p>
        Programs that use <code>{prefix}…</code> are refused within a minute. This cannot be undone.
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
