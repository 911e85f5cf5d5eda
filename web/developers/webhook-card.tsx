import { useState } from "preact/hooks";
import { shortenHex } from "../shared/address.tsx";
import { DayOrTime } from "./day-or-time.tsx";
import { Deliveries } from "./deliveries.tsx";
import type { WebhookJson } from "./json.ts";

type WebhookCardProps = {
  webhook: WebhookJson;
  path: string;
  onTest: () => Promise<unknown>;
  /** Called when no delivery waits any more. */
  onSettled: () => void;
  onPause: () => void;
  onResume: () => void;
  onRotate: () => void;
  onDelete: () => void;
};

/** A webhook: its state, what can be done with it, and its deliveries. */
export const WebhookCard = ({
  webhook,
  path,
  onTest,
  onSettled,
  onPause,
  onResume,
  onRotate,
  onDelete,
}: WebhookCardProps) => {
  const { url, createdAt, lastDeliveredAt, pausedAt } = webhook;
  const [isOpen, setOpen] = useState(false);
  const test = async () => {
    await onTest();
    setOpen(true);
  };
  return (
    <li class="card webhook">
      <div class="webhook-head">
        <h3 class="url">{url}</h3>
        <State webhook={webhook} />
      </div>
      <Trouble webhook={webhook} />
      <dl>
        <div>
          <dt>Told of</dt>
          <dd>{describeFilters(webhook)}</dd>
        </div>
        <div>
          <dt>Created</dt>
          <dd>
            <DayOrTime at={createdAt} />
          </dd>
        </div>
        <div>
          <dt>Last delivery</dt>
          <dd>{lastDeliveredAt ? <DayOrTime at={lastDeliveredAt} /> : "never"}</dd>
        </div>
      </dl>
      <div class="webhook-actions">
        <button type="button" class="button" onClick={test}>
          Send a test
        </button>
        {pausedAt ? (
          <button type="button" class="button" onClick={onResume}>
            Resume
          </button>
        ) : (
          <button type="button" class="button" onClick={onPause}>
            Pause
          </button>
        )}
        <button type="button" class="button" onClick={onRotate}>
          New secret
        </button>
        <button type="button" class="button danger" onClick={onDelete}>
          Delete
        </button>
      </div>
      <details class="deliveries" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>Deliveries</summary>
        {isOpen && <Deliveries path={`${path}/deliveries`} onSettled={onSettled} />}
      </details>
    </li>
  );
};

const State = ({ webhook: { pausedAt, failingSince } }: { webhook: WebhookJson }) => {
  if (pausedAt) return <span class="chip state poor">Paused</span>;
  if (failingSince) return <span class="chip state bad">Failing</span>;
  return <span class="chip state good">Active</span>;
};

const Trouble = ({ webhook }: { webhook: WebhookJson }) => {
  const { pausedAt, pausedReason, failingSince, nextAttemptAt } = webhook;
  if (pausedAt) {
    return (
      <p class="trouble">
        {pausedReason ?? "You paused it."} Nothing is lost: it goes on where it stopped when you resume it.
      </p>
    );
  }
  if (!failingSince) return null;
  return (
    <p class="trouble">
      No message has been delivered since <DayOrTime at={failingSince} />.
      {nextAttemptAt && (
        <>
          {" "}
          Next attempt: <DayOrTime at={nextAttemptAt} />.
        </>
      )}
    </p>
  );
};

const describeFilters = ({
  chainId,
  registry,
  wallet,
  vault,
  delegate,
  contract,
  type,
  finality,
}: WebhookJson): string => {
  const parts = [
    wallet && `wallet ${shortenHex(wallet)}`,
    vault && `vault ${shortenHex(vault)}`,
    delegate && `delegate ${shortenHex(delegate)}`,
    contract && `contract ${shortenHex(contract)}`,
    type && `type ${type}`,
    registry !== "both" && registry,
    chainId.length > 0 && `chain ${chainId.join(", ")}`,
  ].filter(Boolean);
  const what = parts.length > 0 ? parts.join(", ") : "every change";
  return finality === "final" ? `${what}, once final` : `${what}, at once`;
};
