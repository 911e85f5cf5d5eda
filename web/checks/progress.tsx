import { useEffect, useState } from "preact/hooks";
import type { Limit } from "../../client/src/index.ts";
import { describeFailure } from "../shared/fetch-json.ts";
import type { Run, Wait } from "./use-run.ts";

/** Describes the progress, for everyone and for screen readers. */
export const describeProgress = ({ answered, total }: Run): string =>
  `${answered.toLocaleString("en")} of ${total.toLocaleString("en")} answered`;

export const describeState = ({ state }: Run): string => {
  if (state === "running") return "Checking";
  if (state === "done") return "Done";
  return state === "stopped" ? "Stopped" : "Interrupted";
};

type ProgressProps = { run: Run; stop: () => void; goOn: () => void };

export const Progress = ({ run, stop, goOn }: ProgressProps) => {
  const { state, answered, total, wait } = run;
  return (
    <section class="card progress" aria-labelledby="progress-title">
      <h2 id="progress-title">{describeState(run)}</h2>
      <p>{describeProgress(run)}</p>
      <progress value={answered} max={total} aria-label="Answered checks" />
      {wait && state === "running" && <WaitLine key={wait.endsAt} run={run} wait={wait} />}
      {typeof state === "object" && <p class="error-line">{describeFailure(state)}</p>}
      {state === "running" && (
        <button type="button" class="button" onClick={stop}>
          Stop
        </button>
      )}
      {state !== "running" && state !== "done" && (
        <button type="button" class="button" onClick={goOn}>
          Go on
        </button>
      )}
    </section>
  );
};

const describeTimeLeft = (checks: number, { quota, windowMs }: Limit): string => {
  const seconds = Math.ceil(checks / quota) * (windowMs / 1000);
  const minutes = Math.ceil(seconds / 60);
  if (seconds <= 60) return `About ${seconds} s left.`;
  return `About ${minutes < 60 ? "" : `${Math.floor(minutes / 60)} h `}${minutes % 60} min left.`;
};

/** Why nothing is sent, until something is. */
const WaitLine = ({ run: { answered, total, limit }, wait: { reason, endsAt } }: { run: Run; wait: Wait }) => {
  const readSeconds = () => Math.max(0, Math.ceil((endsAt - Date.now()) / 1000));
  const [seconds, setSeconds] = useState(readSeconds);
  useEffect(() => {
    const timer = setInterval(() => setSeconds(readSeconds()), 250);
    return () => clearInterval(timer);
  }, []);
  if (seconds === 0) return null;
  const timeLeft = limit && describeTimeLeft(total - answered, limit);
  return (
    <p class="quiet">
      {reason} {timeLeft && `${timeLeft} `}The next ones follow in {seconds} s.
    </p>
  );
};
