import { useEffect, useState } from "preact/hooks";
import { describeFailure, fetchJson } from "../shared/fetch-json.ts";
import { useJson } from "../shared/use-json.ts";
import { DayOrTime } from "./day-or-time.tsx";
import type { DeliveryJson, DeliveryListJson } from "./json.ts";

/** The page looks again while a message waits, and otherwise now and then. */
const WAITING_MS = 1_500;
const IDLE_MS = 15_000;

const isWaiting = ({ askedAt, sentAt }: DeliveryJson) => askedAt !== null || sentAt === null;

/** The newest messages of a webhook, and what became of them. */
export const Deliveries = ({ path, onSettled }: { path: string; onSettled: () => void }) => {
  const { result, refresh } = useJson<DeliveryListJson>(path);
  const [error, setError] = useState<string | null>(null);
  const list = result?.kind === "ok" ? result.value.deliveries : null;
  const waits = list?.some(isWaiting) ?? true;
  useEffect(() => {
    if (!waits) onSettled();
  }, [waits]);
  useEffect(() => {
    const timer = setTimeout(refresh, waits ? WAITING_MS : IDLE_MS);
    return () => clearTimeout(timer);
  }, [result]);
  const sendAgain = async ({ messageId }: DeliveryJson) => {
    const answer = await fetchJson(`${path}/${messageId}`, { method: "POST" });
    setError(answer.kind === "ok" ? null : describeFailure(answer));
    refresh();
  };
  if (result && result.kind !== "ok") return <p class="error-line">{describeFailure(result)}</p>;
  if (!list) return <div class="skeleton placeholder" role="status" aria-label="Loading the deliveries" />;
  if (list.length === 0) return <p class="quiet">Nothing has been sent yet. A test shows if your server answers.</p>;
  return (
    <>
      {error && (
        <p class="error-line" role="alert">
          {error}
        </p>
      )}
      <ul>
        {list.map((delivery) => (
          <DeliveryRow key={delivery.messageId} delivery={delivery} onAgain={() => sendAgain(delivery)} />
        ))}
      </ul>
    </>
  );
};

const DeliveryRow = ({ delivery, onAgain }: { delivery: DeliveryJson; onAgain: () => void }) => {
  const { type, messageId, attempts, sentAt, createdAt, error, answer, milliseconds, body } = delivery;
  return (
    <li class="delivery">
      <details>
        <summary>
          <Outcome delivery={delivery} />
          <code>{type}</code>
          <span class="quiet">
            <DayOrTime at={sentAt ?? createdAt} />
            {attempts > 1 && `, ${attempts} attempts`}
          </span>
        </summary>
        <div class="delivery-details">
          {error && <p class="error-line">{error}</p>}
          <p class="quiet">
            <code>{messageId}</code>
            {milliseconds !== null && `, ${milliseconds.toLocaleString("en")} ms`}
          </p>
          <Text label="Body" text={indent(body)} />
          {answer && <Text label="Your server answered" text={answer} />}
          <button type="button" class="button" disabled={isWaiting(delivery)} onClick={onAgain}>
            {delivery.deliveredAt || type === "webhook.test" ? "Send again" : "Try now"}
          </button>
        </div>
      </details>
    </li>
  );
};

const Outcome = ({ delivery }: { delivery: DeliveryJson }) => {
  const { status, error } = delivery;
  if (isWaiting(delivery)) return <span class="chip">Waiting</span>;
  if (error) return <span class="chip state bad">{status ?? "No answer"}</span>;
  return <span class="chip state good">{status}</span>;
};

const Text = ({ label, text }: { label: string; text: string }) => (
  <figure>
    <figcaption>{label}</figcaption>
    <pre>
      <code>{text}</code>
    </pre>
  </figure>
);

const indent = (json: string): string => JSON.stringify(JSON.parse(json), null, 2);
