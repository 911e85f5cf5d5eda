import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { describeFailure, fetchJson } from "../shared/fetch-json.ts";
import { isSessionExpired } from "./json.ts";

type ConfirmDialogProps = {
  title: string;
  /** What is deleted. */
  path: string;
  confirmLabel: string;
  onDone: () => void;
  onCancel: () => void;
  onSessionExpired: () => void;
  children: ComponentChildren;
};

/** Asks for confirmation of a DELETE, which cannot be undone. */
export const ConfirmDialog = ({
  title,
  path,
  confirmLabel,
  onDone,
  onCancel,
  onSessionExpired,
  children,
}: ConfirmDialogProps) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  // Opens before the next paint, so that the next key press goes to the dialog.
  useLayoutEffect(() => dialog.current?.showModal(), []);

  const confirm = async () => {
    setBusy(true);
    const result = await fetchJson(path, { method: "DELETE" });
    setBusy(false);
    if (result.kind === "ok") {
      // Closes first: elements behind an open dialog cannot take the focus.
      dialog.current?.close();
      onDone();
    } else if (isSessionExpired(result)) onSessionExpired();
    else setError(describeFailure(result));
  };

  return (
    <dialog ref={dialog} class="card" aria-labelledby="confirm-title" onClose={onCancel}>
      <h2 id="confirm-title">{title}</h2>
      {children}
      {error && (
        <p class="error-line" role="alert">
          {error}
        </p>
      )}
      <div class="actions">
        <button type="button" class="button" onClick={() => dialog.current?.close()}>
          Keep it
        </button>
        <button type="button" class="button danger" disabled={isBusy} onClick={confirm}>
          {confirmLabel}
        </button>
      </div>
    </dialog>
  );
};
