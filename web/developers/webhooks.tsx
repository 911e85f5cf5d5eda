import { useEffect, useRef, useState } from "preact/hooks";
import { describeFailure, type FetchResult, fetchJson } from "../shared/fetch-json.ts";
import { FailureNotice } from "../shared/notice.tsx";
import { useJson } from "../shared/use-json.ts";
import { ConfirmDialog } from "./confirm-dialog.tsx";
import { Copyable } from "./copyable.tsx";
import { isSessionExpired, type NewWebhookJson, type WebhookJson, type WebhookListJson } from "./json.ts";
import { WebhookCard } from "./webhook-card.tsx";
import { WebhookForm } from "./webhook-form.tsx";

const PATH = "/developers/api/webhooks";

/** A secret that is shown once. */
type ShownSecret = { url: string; secret: string; isRotated: boolean };

/** The webhooks of the signed-in wallet. */
export const Webhooks = ({ onSessionExpired }: { onSessionExpired: () => void }) => {
  const { result, retry, refresh } = useJson<WebhookListJson>(PATH);
  const [shown, setShown] = useState<ShownSecret | null>(null);
  const [deleting, setDeleting] = useState<WebhookJson | null>(null);
  const [status, setStatus] = useState("");
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (result && result.kind !== "ok" && isSessionExpired(result)) onSessionExpired();
  }, [result]);

  /** Sends a request about a webhook. */
  const act = async <Value,>(path: string, done: string): Promise<FetchResult<Value>> => {
    const answer = await fetchJson<Value>(`${PATH}/${path}`, { method: "POST" });
    if (answer.kind !== "ok" && isSessionExpired(answer)) onSessionExpired();
    setStatus(answer.kind === "ok" ? done : describeFailure(answer));
    refresh();
    return answer;
  };
  const rotate = async ({ id, url }: WebhookJson) => {
    const answer = await act<{ secret: string }>(`${id}/rotate`, "The secret is replaced.");
    if (answer.kind === "ok") setShown({ url, secret: answer.value.secret, isRotated: true });
  };
  const onMade = ({ url, secret }: NewWebhookJson) => {
    setShown({ url, secret, isRotated: false });
    refresh();
  };
  const onStored = () => {
    setShown(null);
    title.current?.focus();
  };
  const onDeleted = () => {
    setDeleting(null);
    setStatus("The webhook is deleted.");
    refresh();
    title.current?.focus();
  };

  if (result && result.kind !== "ok") {
    return isSessionExpired(result) ? null : <FailureNotice failure={result} retry={retry} />;
  }
  const list = result?.value;
  return (
    <section class="webhooks" aria-labelledby="webhooks-title">
      <div class="title-line">
        <h2 id="webhooks-title" tabIndex={-1} ref={title}>
          Your webhooks
        </h2>
        {list && (
          <span class="quiet">
            {list.webhooks.length} of {list.webhooksPerWallet}
          </span>
        )}
      </div>
      <p class="quiet webhooks-intro">
        The service posts a signed message to your server for each change of a delegation: made, changed in amount or
        revoked.
      </p>
      {shown && <SecretPanel shown={shown} onStored={onStored} />}
      {list && !list.isBlocked && list.webhooks.length < list.webhooksPerWallet && (
        <WebhookForm path={PATH} onMade={onMade} onSessionExpired={onSessionExpired} />
      )}
      {list && list.webhooks.length >= list.webhooksPerWallet && (
        <p class="full">All {list.webhooksPerWallet} webhooks of this wallet are in use. Delete one to make another.</p>
      )}
      <ul class="keys">
        {list?.webhooks.map((webhook) => (
          <WebhookCard
            key={webhook.id}
            webhook={webhook}
            path={`${PATH}/${webhook.id}`}
            onTest={() => act(`${webhook.id}/test`, "A test is on its way.")}
            onSettled={refresh}
            onPause={() => act(`${webhook.id}/pause`, "The webhook is paused.")}
            onResume={() => act(`${webhook.id}/resume`, "The webhook goes on where it stopped.")}
            onRotate={() => rotate(webhook)}
            onDelete={() => setDeleting(webhook)}
          />
        ))}
      </ul>
      <p class="note quiet" role="status">
        {status}
      </p>
      {deleting && (
        <ConfirmDialog
          title="Delete this webhook?"
          path={`${PATH}/${deleting.id}`}
          confirmLabel="Delete webhook"
          onDone={onDeleted}
          onCancel={() => setDeleting(null)}
          onSessionExpired={onSessionExpired}
        >
          <p>
            Nothing more is sent to <span class="url">{deleting.url}</span>, and its place in the log is lost.
          </p>
        </ConfirmDialog>
      )}
    </section>
  );
};

const SecretPanel = ({ shown: { url, secret, isRotated }, onStored }: { shown: ShownSecret; onStored: () => void }) => {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), [secret]);
  return (
    <section class="made-key" aria-labelledby="made-secret">
      <h3 id="made-secret" tabIndex={-1} ref={heading}>
        The secret of <span class="url">{url}</span>
      </h3>
      <p>
        Copy it now: it is shown only once. Your server verifies each message with it.
        {isRotated && " Until this time tomorrow, messages have a signature by the old secret too."}
      </p>
      <Copyable label="Secret" text={secret} what="secret" />
      <button type="button" class="button primary" onClick={onStored}>
        I have stored it
      </button>
    </section>
  );
};
