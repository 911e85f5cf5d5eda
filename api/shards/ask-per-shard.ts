import { Problem } from "../problem.ts";

type Question<Part, Located, Found, Answer> = {
  parts: Iterable<Part>;
  /** Finds the schema of a part, and completes its question. Throws a problem if it cannot be answered. */
  locate: (part: Part) => [schema: string, located: Located];
  /** Asks a schema about all its parts, in one statement. */
  ask: (schema: string, located: readonly Located[]) => Promise<Found>;
  /** Reads the answer to a part, the `index`th of its schema. Throws a problem if there is none. */
  read: (found: Found, located: Located, index: number) => Answer;
};

/**
 * Asks a question with parts for several shards. A part without an answer has a problem: its own, or that of its shard
 * if that cannot be read. If no shard answers in time, or the database is out of reach, the whole question fails.
 */
export const askPerShard = async <Part, Located, Found, Answer>({
  parts,
  locate,
  ask,
  read,
}: Question<Part, Located, Found, Answer>): Promise<Map<Part, Answer | Problem>> => {
  const answers = new Map<Part, Answer | Problem>();
  const bySchema = new Map<string, { part: Part; located: Located }[]>();
  // In one go: a refresh of the shards in between could give a chain two schemas or blocks.
  for (const part of parts) {
    const found = orProblem(() => locate(part));
    if (found instanceof Problem) {
      answers.set(part, found);
      continue;
    }
    const [schema, located] = found;
    const ofSchema = bySchema.get(schema) ?? [];
    ofSchema.push({ part, located });
    bySchema.set(schema, ofSchema);
  }
  const failures: Problem[] = [];
  const answerSchema = async ([schema, ofSchema]: [string, { part: Part; located: Located }[]]) => {
    const found = await ask(
      schema,
      ofSchema.map(({ located }) => located),
    ).catch((error) => {
      if (!(error instanceof Problem) || error.problem === "database-unavailable") throw error;
      failures.push(error);
      return error;
    });
    for (const [index, { part, located }] of ofSchema.entries()) {
      answers.set(part, found instanceof Problem ? found : orProblem(() => read(found, located, index)));
    }
  };
  await Promise.all([...bySchema].map(answerSchema));
  const [first] = failures;
  if (first && failures.length === bySchema.size && failures.every(isTemporary)) throw first;
  return answers;
};

const isTemporary = ({ problem }: Problem): boolean => problem !== "not-indexed";

/** Calls a function, and returns the problem that it throws. */
export const orProblem = <Value>(find: () => Value): Value | Problem => {
  try {
    return find();
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
};
