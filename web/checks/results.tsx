import { useState } from "preact/hooks";
import { shortenHex } from "../shared/address.tsx";
import { amountLabel, countLabel } from "../shared/labels.ts";
import { saveFile } from "../shared/save-file.ts";
import { TableFrame } from "../shared/table-frame.tsx";
import type { Answer, Counts } from "./answers.ts";
import { buildDownload } from "./download.ts";
import type { KnownNetwork } from "./read-check.ts";
import type { ListRow } from "./read-list.ts";
import type { Run } from "./use-run.ts";

const SHOWN_ROWS = 200;

const LABELS: readonly (readonly [kind: keyof Counts, label: string])[] = [
  ["true", "True"],
  ["false", "False"],
  ["balance", "Balances above 0"],
  ["nothing", "Balances of 0"],
  ["problem", "Problems"],
];

type ResultsProps = { run: Run; networks: readonly KnownNetwork[] | null };

/** The answers: how many of each kind, the first lines, and all as a download. */
export const Results = ({ run, networks }: ResultsProps) => {
  const { list, answers, counts } = run;
  const [isProblemsOnly, setProblemsOnly] = useState(false);
  const places = findShown(answers, isProblemsOnly);
  const total = isProblemsOnly ? counts.problem : answers.length;
  return (
    <section class="card results" aria-labelledby="results-title">
      <div class="results-head">
        <h2 id="results-title">Answers</h2>
        <button
          type="button"
          class="button"
          onClick={() => saveFile("answers.csv", buildDownload(list, answers), "text/csv")}
        >
          Download CSV
        </button>
      </div>
      <dl class="counts">
        {LABELS.map(([kind, label]) => (
          <div key={kind}>
            <dt>{label}</dt>
            <dd>{counts[kind].toLocaleString("en")}</dd>
          </div>
        ))}
      </dl>
      <label class="filter">
        <input
          type="checkbox"
          checked={isProblemsOnly}
          onChange={({ currentTarget }) => setProblemsOnly(currentTarget.checked)}
        />
        Problems only
      </label>
      {places.length === 0 ? (
        <p class="quiet">No problems.</p>
      ) : (
        <TableFrame label="Answers by line">
          <table>
            <thead>
              <tr>
                {["Line", "Result", "Block", ...list.columns].map((name, place) => (
                  <th key={place} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {places.map((place) => {
                const row = list.rows[place];
                return row && <ResultRow key={place} row={row} answer={answers[place]} networks={networks} />;
              })}
            </tbody>
          </table>
        </TableFrame>
      )}
      {places.length < total && (
        <p class="quiet">
          The first {SHOWN_ROWS} of {countLabel(total, "line", "lines")}. The download has all.
        </p>
      )}
    </section>
  );
};

const findShown = (answers: readonly (Answer | undefined)[], isProblemsOnly: boolean): number[] => {
  const places: number[] = [];
  for (let place = 0; place < answers.length && places.length < SHOWN_ROWS; place++) {
    if (!isProblemsOnly || answers[place]?.problem) places.push(place);
  }
  return places;
};

type ResultRowProps = { row: ListRow; answer: Answer | undefined; networks: readonly KnownNetwork[] | null };

const ResultRow = ({ row: { line, fields, check }, answer, networks }: ResultRowProps) => (
  <tr>
    <th scope="row">{line}</th>
    <td>{answer ? <Result answer={answer} /> : <span class="quiet">not answered</span>}</td>
    <td>{answer?.block && check && describeBlock(answer, check.chainId, networks)}</td>
    {fields.map((field, place) => (
      <td key={place} class="field-cell" title={field}>
        {/^0x/i.test(field) ? shortenHex(field) : field}
      </td>
    ))}
  </tr>
);

const Result = ({ answer: { result, problem } }: { answer: Answer }) => {
  if (problem !== "") return <span class="problem">{problem}</span>;
  const isText = result === "true" || result === "false";
  return (
    <span class="chip" data-yes={result !== "false" && result !== "0"} title={result}>
      {isText ? result : amountLabel(BigInt(result))}
    </span>
  );
};

const describeBlock = (
  { block, final }: Answer,
  chainId: number | undefined,
  networks: readonly KnownNetwork[] | null,
): string => {
  const name = networks?.find((network) => network.chainId === chainId)?.name ?? `Chain ${chainId}`;
  return `${name} ${Number(block).toLocaleString("en")}${final === "true" ? ", final" : ""}`;
};
