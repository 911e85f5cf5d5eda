import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Failure } from "./ask.ts";

type NoticeProps = { title: string; tone?: "plain" | "poor" | "bad"; children?: ComponentChildren };

/** Something to say where an answer would be. */
export const Notice = ({ title, tone = "plain", children }: NoticeProps) => (
  <section class="notice" data-tone={tone}>
    <h2>{title}</h2>
    {children}
  </section>
);

/** What went wrong, and what can be done about it. */
export const FailureNotice = ({ failure, again }: { failure: Failure; again: () => void }) => {
  switch (failure.kind) {
    case "unreachable":
      return (
        <Notice title="The service cannot be reached" tone="bad">
          <p>Your connection may be down, or the service is. Nothing is wrong with what you asked.</p>
          <AgainButton again={again} />
        </Notice>
      );
    case "rate-limited":
      return (
        <Notice title="One moment, please" tone="poor">
          <p>{failure.detail || "More was asked from here than is answered at a time."}</p>
          <Countdown key={failure} seconds={failure.seconds} again={again} />
        </Notice>
      );
    case "unavailable":
      return (
        <Notice title={UNAVAILABLE[failure.problem] ?? "No answer can be given now"} tone="poor">
          <p>{failure.detail}</p>
          <p>An answer that could be wrong is not given. It is asked for again by itself.</p>
          <Countdown key={failure} seconds={failure.seconds} again={again} />
        </Notice>
      );
    case "bad-request":
      return (
        <Notice title="This cannot be asked" tone="bad">
          <p>{failure.detail}</p>
        </Notice>
      );
    case "failed":
      return (
        <Notice title={failure.title} tone="bad">
          <p>{failure.detail}</p>
          <AgainButton again={again} />
        </Notice>
      );
  }
};

/** The names of problems, as people would say it. */
const UNAVAILABLE: Record<string, string> = {
  "not-indexed": "Still indexing",
  "stale-index": "The index is behind its network",
  "database-unavailable": "The database is out of reach",
  overloaded: "There is too much to do",
};

const AgainButton = ({ again }: { again: () => void }) => (
  <button type="button" class="button" onClick={again}>
    Try again
  </button>
);

/** Asks again when the time has come, or when somebody cannot wait. */
const Countdown = ({ seconds, again }: { seconds: number; again: () => void }) => {
  const [left, setLeft] = useState(Math.max(1, seconds));
  useEffect(() => {
    if (left === 0) {
      again();
      return;
    }
    const timer = setTimeout(() => setLeft(left - 1), 1000);
    return () => clearTimeout(timer);
  }, [left, again]);
  return (
    <p class="countdown" aria-live="off">
      Asking again in {left} s
    </p>
  );
};
