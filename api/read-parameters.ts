import { z } from "@hono/zod-openapi";
import type { ApiContext } from "./context.ts";
import { type ParameterError, Problem } from "./problem.ts";

type Shape = Record<string, z.ZodType>;
type ValuesOf<Params extends Shape, Query extends Shape> = z.output<z.ZodObject<Params & Query>>;

/** A parameter that may be given only once, even with the same value. */
const GIVEN_ONCE = "chainId";

/**
 * What a request has to say: for its contract, and for its handler.
 * @param synonyms - other names of parameters
 * @param check - what else is wrong with values that are right one by one
 */
export const defineParameters = <Query extends Shape, Params extends Shape = Record<never, never>>({
  params = {} as Params,
  query,
  synonyms = {},
  check,
}: {
  params?: Params;
  query: Query;
  synonyms?: Readonly<Record<string, string>>;
  check?: (values: Partial<ValuesOf<Params, Query>>) => ParameterError[];
}) => {
  const ofPath = Object.entries(params);
  const fields = Object.entries(query).map(([name, schema]): Field => {
    const missing = schema.safeParse(undefined);
    return { name, synonym: synonyms[name], schema, isRequired: !missing.success, fallback: missing.data };
  });

  return {
    request: { params: z.object(params), query: z.object(query) },

    /** Reads them. Throws a Problem that names every bad one. */
    read: (c: ApiContext): ValuesOf<Params, Query> => {
      const values: Record<string, unknown> = {};
      const errors: ParameterError[] = [];
      for (const [name, schema] of ofPath) {
        const parsed = schema.safeParse(c.req.param(name));
        if (parsed.success) values[name] = parsed.data;
        else errors.push({ parameter: name, message: messageOf(parsed.error) });
      }
      const given = c.req.queries();
      const malformed = malformedNames(c.req.url);
      for (const field of fields) {
        const { name, synonym } = field;
        const own = given[name] ?? NOTHING;
        const others = synonym === undefined ? NOTHING : (given[synonym] ?? NOTHING);
        const isMalformed = malformed.has(name) || (synonym !== undefined && malformed.has(synonym));
        const reading = readField(field, others.length === 0 ? own : [...own, ...others], isMalformed);
        if ("value" in reading) values[name] = reading.value;
        else {
          const parameter = own.length === 0 && others.length > 0 ? synonym : name;
          errors.push({ parameter: parameter ?? name, message: reading.error });
        }
      }
      if (check) errors.push(...check(values as Partial<ValuesOf<Params, Query>>));
      if (errors.length > 0) throw badParameters(errors);
      return values as ValuesOf<Params, Query>;
    },
  };
};

/** One problem for all that is bad. */
export const badParameters = (errors: readonly ParameterError[]) =>
  new Problem("bad-parameter", errors.map(({ parameter, message }) => `${parameter} ${message}.`).join(" "), {
    errors,
  });

type Field = { name: string; synonym: string | undefined; schema: z.ZodType; isRequired: boolean; fallback: unknown };

const NOTHING: readonly string[] = [];

/** The value of a parameter that was given any number of times, under any of its names; or what is wrong with it. */
const readField = (
  { name, synonym, schema, isRequired, fallback }: Field,
  texts: readonly string[],
  isMalformed: boolean,
): { value: unknown } | { error: string } => {
  const [text, ...others] = texts;
  if (text === undefined) {
    if (!isRequired) return { value: fallback };
    return { error: `is required${synonym === undefined ? "" : ` (or its other name, ${synonym})`}` };
  }
  if (name === GIVEN_ONCE && others.length > 0) return { error: "must be given once" };
  if (isMalformed) return { error: "is not properly percent-encoded" };
  const first = schema.safeParse(text);
  if (!first.success) return { error: messageOf(first.error) };
  for (const other of others) {
    if (other === text) continue;
    const parsed = schema.safeParse(other);
    if (!parsed.success) return { error: messageOf(parsed.error) };
    if (parsed.data !== first.data) {
      return { error: `is given with different values${synonym === undefined ? "" : ` (also as ${synonym})`}` };
    }
  }
  return { value: first.data };
};

const messageOf = ({ issues: [first] }: z.ZodError): string => first?.message ?? "is not what it must be";

const NO_NAMES: ReadonlySet<string> = new Set();

/** The names whose values cannot be decoded. Hono takes such a value as it stands, as if it were meant so. */
const malformedNames = (url: string): ReadonlySet<string> => {
  if (!url.includes("%")) return NO_NAMES;
  const query = url.slice(url.indexOf("?") + 1).split("#", 1)[0] ?? "";
  const names = query.split("&").flatMap((pair) => {
    const equals = pair.indexOf("=");
    const name = decode(equals === -1 ? pair : pair.slice(0, equals));
    return name !== null && equals !== -1 && decode(pair.slice(equals + 1)) === null ? [name] : [];
  });
  return new Set(names);
};

const decode = (text: string): string | null => {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
};
