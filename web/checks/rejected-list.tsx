import { countLabel } from "../shared/labels.ts";
import { Notice } from "../shared/notice.tsx";
import { TableFrame } from "../shared/table-frame.tsx";
import type { LineProblem, List } from "./read-list.ts";

const SHOWN_PROBLEMS = 200;

/** Finds everything that is wrong with a list, by line. */
export const findProblems = ({ errors, rows }: List): LineProblem[] =>
  [...errors, ...rows.flatMap(({ line, problem }) => (problem === null ? [] : [{ line, problem }]))].sort(
    (a, b) => a.line - b.line,
  );

export const describeProblems = (problems: readonly LineProblem[]): string =>
  `${countLabel(problems.length, "problem", "problems")} in the list`;

type RejectedListProps = { list: List; onCheckOthers: () => void };

/** Shows what is wrong with a list, before anything is sent. */
export const RejectedList = ({ list, onCheckOthers }: RejectedListProps) => {
  const problems = findProblems(list);
  const others = list.rows.filter(({ check }) => check !== null).length;
  return (
    <Notice title={describeProblems(problems)} tone="bad">
      <p>Nothing was sent.</p>
      <TableFrame label="Problems by line">
        <table>
          <thead>
            <tr>
              <th scope="col">Line</th>
              <th scope="col">Problem</th>
            </tr>
          </thead>
          <tbody>
            {problems.slice(0, SHOWN_PROBLEMS).map(({ line, problem }) => (
              <tr key={`${line} ${problem}`}>
                <th scope="row">{line}</th>
                <td class="problem">{problem}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
      {problems.length > SHOWN_PROBLEMS && <p>These are the first {SHOWN_PROBLEMS}.</p>}
      {list.errors.length === 0 && others > 0 && (
        <button type="button" class="button" onClick={onCheckOthers}>
          Check the rest ({countLabel(others, "line", "lines")})
        </button>
      )}
    </Notice>
  );
};
