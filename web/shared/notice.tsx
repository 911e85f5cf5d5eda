import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { FetchFailure } from "./fetch-json.ts";

type NoticeProps = { title: string; tone?: "plain" | "poor" | "bad"; children?: ComponentChildren };

/** A message in place of content. */
export const Notice = ({ title, tone = "plain", children }: NoticeProps) => (
  <section class="notice" data-tone={tone}>
    <h2>{title}</h2>
    {children}
  </section>
);

/** Explains a failed request and offers a retry. */
export const FailureNotice = ({ failure, retry }: { failure: FetchFailure; retry: () => void }) => {
  switch (failure.kind) {
    case "unreachable":
      return (
        <Notice title="The service cannot be reached" tone="bad">
          <p>Your connection or the service may be down. Your request is fine.</p>
          <RetryButton retry={retry} />
        </Notice>
      );
    case "rate-limited":
      return (
        <Notice title="One moment, please" tone="poor">
          <p>{failure.detail || "Too many requests came from your address."}</p>
          <Countdown key={failure} seconds={failure.seconds} retry={retry} />
        </Notice>
      );
    case "unavailable":
      return (
        <Notice title={UNAVAILABLE[failure.problem] ?? "No answer right now"} tone="poor">
          <p>{failure.detail}</p>
          <p>The service gives no answer that could be wrong. This page tries again automatically.</p>
          <Countdown key={failure} seconds={failure.seconds} retry={retry} />
        </Notice>
      );
    case "bad-request":
      return (
        <Notice title="This request is not valid" tone="bad">
          <p>{failure.detail}</p>
        </Notice>
      );
    case "failed":
      return (
        <Notice title={failure.title} tone="bad">
          <p>{failure.detail}</p>
          <RetryButton retry={retry} />
        </Notice>
      );
  }
};

/** Titles by problem name. */
const UNAVAILABLE: Record<string, string> = {
  "not-indexed": "Still indexing",
  "stale-index": "The index is behind its network",
  "index-differs": "The index differs from the registry",
  "proof-unavailable": "No proof right now",
  "database-unavailable": "The database cannot be reached",
  overloaded: "The service is busy",
};

const RetryButton = ({ retry }: { retry: () => void }) => (
  <button type="button" class="button" onClick={retry}>
    Try again
  </button>
);

/** Counts down, then retries. */
const Countdown = ({ seconds, retry }: { seconds: number; retry: () => void }) => {
  const [secondsLeft, setSecondsLeft] = useState(Math.max(1, seconds));
  useEffect(() => {
    if (secondsLeft === 0) {
      retry();
      return;
    }
    const timer = setTimeout(() => setSecondsLeft(secondsLeft - 1), 1000);
    return () => clearTimeout(timer);
  }, [secondsLeft, retry]);
  return (
    <p class="countdown" aria-live="off">
      Trying again in {secondsLeft} s
    </p>
  );
};
