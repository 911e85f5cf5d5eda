import { useEffect, useRef, useState } from "preact/hooks";
import { useNetworkStates } from "../shared/use-registry.ts";
import { ListForm, type Options, readOptions } from "./list-form.tsx";
import { describeProgress, describeState, Progress } from "./progress.tsx";
import { explainBlock, type List, readList } from "./read-list.ts";
import { describeProblems, findProblems, RejectedList } from "./rejected-list.tsx";
import { Results } from "./results.tsx";
import { type Run, useRun } from "./use-run.ts";

export const ChecksPage = () => {
  const { result } = useNetworkStates();
  const networks = result?.kind === "ok" ? result.value : null;
  const { run, start, goOn, stop } = useRun();
  const [errors, setErrors] = useState<Partial<Record<keyof Options, string | null>>>({});
  const [rejected, setRejected] = useState<List | null>(null);
  const form = useRef<HTMLFormElement>(null);
  const outcome = useRef<HTMLDivElement>(null);
  const isRunning = run?.state === "running";
  useWarningBeforeLeaving(isRunning);
  // On a phone, it is below the form.
  useEffect(() => {
    if (rejected || isRunning) outcome.current?.scrollIntoView({ block: "nearest" });
  }, [rejected, isRunning]);

  /** Calls a function with the options, unless one of them is bad. */
  const withOptions = (list: List, use: (options: Options) => void) => {
    if (!form.current) return;
    const options = readOptions(form.current);
    const errors = { block: explainBlock(options.block, list), apiKey: explainApiKey(options.apiKey) };
    setErrors(errors);
    const badField = errors.block ? "block" : errors.apiKey && "apiKey";
    if (badField) document.getElementById(badField)?.focus();
    else use(options);
  };
  const submit = (text: string) => {
    const list = readList(text, networks);
    const isBad = findProblems(list).length > 0;
    setRejected(isBad ? list : null);
    withOptions(list, (options) => !isBad && start(list, options));
  };
  const checkOthers = (list: List) =>
    withOptions(list, (options) => {
      setRejected(null);
      start(list, options);
    });

  return (
    <div class="column checks">
      <header class="intro">
        <h1>Check a list</h1>
        <p class="quiet">
          Paste or choose a list of wallets, and download it with the answers. The list stays in this browser: only its
          checks are sent.
        </p>
      </header>
      <ListForm form={form} errors={errors} isRunning={isRunning} onSubmit={submit} />
      <p class="visually-hidden" role="status">
        {rejected ? `${describeProblems(findProblems(rejected))}. Nothing was sent.` : run && announce(run)}
      </p>
      <div ref={outcome} class="outcome">
        {rejected ? (
          <RejectedList list={rejected} onCheckOthers={() => checkOthers(rejected)} />
        ) : (
          run && (
            <>
              <Progress run={run} stop={stop} goOn={() => withOptions(run.list, ({ apiKey }) => goOn(apiKey))} />
              <Results run={run} networks={networks} />
            </>
          )
        )}
      </div>
    </div>
  );
};

/** A browser refuses to send other characters in a header. */
const explainApiKey = (apiKey: string): string | null =>
  /^[!-~]*$/.test(apiKey) ? null : "An API key has only letters, digits and _.";

/** Announces every tenth of the progress, not each response. */
const announce = (run: Run): string => {
  const { state, answered, total } = run;
  if (state === "running") return `${Math.floor((answered / total) * 10) * 10} % answered`;
  return `${describeState(run)}: ${describeProgress(run)}`;
};

/** The answers are in this page only. */
const useWarningBeforeLeaving = (isRunning: boolean): void =>
  useEffect(() => {
    if (!isRunning) return;
    const warn = (event: Event) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isRunning]);
