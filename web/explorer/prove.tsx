import { useState } from "preact/hooks";
import type { Network } from "../../client/src/index.ts";
import type * as verification from "../../client/src/proof.ts";
import type { Question } from "../../client/src/questions.ts";
import { CopyButton } from "../shared/address.tsx";
import { type FetchFailure, fetchJson } from "../shared/fetch-json.ts";
import { amountLabel } from "../shared/labels.ts";
import { FailureNotice } from "../shared/notice.tsx";
import { saveFile } from "../shared/save-file.ts";
import { TimeAgo } from "../shared/time.tsx";
import { useAnswer } from "../shared/use-answer.ts";
import { describePlace } from "./describe-place.ts";
import { buildExplorerUrls } from "./use-networks.ts";

/** The URL of the client's code that verifies proofs, which build.ts sets. */
declare const VERIFY_PROOF: string;

type Proven = { file: verification.Proof; proven: verification.Proven };

type ProveProps = {
  /** The URL of the check in the API. */
  url: string;
  question: Question;
  network: Network;
};

/** Fetches the proof of an answer when asked to, verifies it in this browser, and tells what it shows. */
export const Prove = ({ url, question, network }: ProveProps) => {
  const [isAsked, setAsked] = useState(false);
  const { result, retry } = useAnswer<Proven>(isAsked ? url : null, (signal) => fetchProof(url, question, signal));
  const { available, reason } = network.proofs;
  return (
    <section class="prove" aria-labelledby="prove-title">
      <h3 id="prove-title">Proof</h3>
      {!isAsked && !available && (
        <p class="quiet">
          Answers on {network.name} have no proof here: {reason}.
        </p>
      )}
      {!isAsked && available && (
        <>
          <p class="quiet">
            Your browser can verify this answer by the network's own state, without trusting this service.
          </p>
          <button type="button" class="button" onClick={() => setAsked(true)}>
            Prove it
          </button>
        </>
      )}
      <div role="status">
        {isAsked && result === null && <p class="quiet">Asking for the proof, and verifying it…</p>}
        {result?.kind === "ok" && <ShownProof {...result.value} network={network} />}
      </div>
      {result !== null && result.kind !== "ok" && <FailureNotice failure={result} retry={retry} />}
    </section>
  );
};

const ShownProof = ({ file, proven, network }: Proven & { network: Network }) => {
  const { value, block, places, question } = proven;
  const number = block.number.toLocaleString("en");
  const href = buildExplorerUrls(network).block(block.number);
  const answer = typeof value === "bigint" ? amountLabel(value) : value ? "Yes" : "No";
  const name = `proof-${question.registry}-${question.check}-${network.chainId}-${block.number}.json`;
  return (
    <>
      <p>
        <strong>Verified in your browser: {answer}.</strong>{" "}
        {places.length === 1 ? "This word" : `These ${places.length} words`} of the {question.registry} registry's
        storage decided it, after block {number} (<TimeAgo timestamp={Number(block.timestamp)} />
        ):
      </p>
      <ul class="places">
        {places.map((place) => (
          <li key={place.slot}>
            <span>{describePlace(place, question)}</span>
            <code title={place.slot}>slot {place.slot}</code>
            <code>value 0x{place.word.toString(16)}</code>
          </li>
        ))}
      </ul>
      <p>
        <strong>One thing is left for you:</strong> the proof holds if this is the hash of block {number} of{" "}
        {network.name}. Compare it with a source other than this service, such as{" "}
        {href ? (
          <a href={href} rel="noreferrer">
            the block explorer
          </a>
        ) : (
          "a block explorer"
        )}{" "}
        or your own node.
      </p>
      <p class="hash">
        <code>{block.hash}</code>
        <CopyButton text={block.hash} what="hash of the block" />
      </p>
      <button
        type="button"
        class="button"
        onClick={() => saveFile(name, JSON.stringify(file, null, 2), "application/json")}
      >
        Save the proof
      </button>
    </>
  );
};

const fetchProof = async (
  url: string,
  check: Question,
  signal: AbortSignal,
): Promise<{ kind: "ok"; value: Proven } | FetchFailure> => {
  const loading = import(VERIFY_PROOF) as Promise<typeof verification>;
  // Awaited after the request.
  loading.catch(() => {});
  const result = await fetchJson<verification.Proof>(`${url}&proof=true`, { signal });
  // The check itself is right: it was answered without a proof.
  if (result.kind === "bad-request")
    return { kind: "failed", status: 400, title: "There is no proof", detail: result.detail };
  if (result.kind !== "ok") return result;
  const { value: file } = result;
  const module = await loading.catch(() => null);
  if (!module) return { kind: "unreachable" };
  try {
    const trusted = { hash: file.block.hash as `0x${string}`, chainId: file.chainId, check };
    return { kind: "ok", value: { file, proven: module.verifyProof(file, trusted) } };
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return { kind: "failed", status: 200, title: "This is no proof", detail };
  }
};
