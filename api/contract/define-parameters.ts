import { z } from "@hono/zod-openapi";
import type { ApiContext } from "../context.ts";
import { type ParameterError, Problem } from "../problem.ts";

export type Shape = Record<string, z.ZodType>;
type ValuesOf<Params extends Shape, Query extends Shape> = z.output<z.ZodObject<Params & Query>>;

/** A parameter that must not be repeated, even with the same value. */
const UNREPEATABLE = "chainId";

/** Parameters for the moment of an answer. An operation that ignored one would answer for another moment. */
const MOMENTS = ["block", "minBlock", "timestamp"];

/**
 * Defines the parameters of an operation, for its contract and for its handler. Ignores other parameters, but rejects
 * moments that the operation does not take.
 * @param lists - query parameters that may be given several times: their schema is of an array
 * @param synonyms - other names of query parameters
 * @param useInstead - how to ask about a moment; by default, by those parameters that the operation takes
 * @param derive - finds what both `validate` and the handler need to know about the parameters
 * @param validate - finds errors that involve several parameters
 */
export const defineParameters = <
  Query extends Shape,
  Params extends Shape = Record<never, never>,
  Derived extends object = Record<never, never>,
>({
  params = {} as Params,
  query,
  lists = [],
  synonyms = {},
  useInstead,
  derive,
  validate,
}: {
  params?: Params;
  query: Query;
  lists?: readonly string[];
  synonyms?: Readonly<Record<string, string>>;
  useInstead?: string;
  derive?: (values: Partial<ValuesOf<Params, Query>>) => Derived;
  validate?: (values: Partial<ValuesOf<Params, Query>> & Derived) => ParameterError[];
}) => {
  const pathSchemas = Object.entries(params);
  const queryParameters = Object.entries(query).map(([name, schema]): QueryParameter => {
    const missing = schema.safeParse(undefined);
    const isList = lists.includes(name);
    return { name, synonym: synonyms[name], schema, isList, isRequired: !missing.success, defaultValue: missing.data };
  });
  const taken = MOMENTS.filter((name) => name in query);
  const otherMoments = MOMENTS.filter((name) => !(name in query));
  const hint = useInstead ?? (taken.length > 0 ? `use ${taken.join(" or ")}` : "the answer is for now");

  /** Reads all parameters. Throws a Problem that names every bad one. */
  const parse = (texts: Texts): ValuesOf<Params, Query> & Derived => {
    const values: Record<string, unknown> = {};
    const errors: ParameterError[] = [];
    for (const [name, schema] of pathSchemas) {
      const parsed = schema.safeParse(texts.ofPath(name));
      if (parsed.success) values[name] = parsed.data;
      else errors.push({ parameter: name, message: messageOf(parsed.error) });
    }
    for (const parameter of queryParameters) {
      const { name, synonym } = parameter;
      const named = texts.ofQuery(name);
      const renamed = synonym === undefined ? NO_TEXTS : texts.ofQuery(synonym);
      const isMalformed = texts.malformed.has(name) || (synonym !== undefined && texts.malformed.has(synonym));
      const result = parseTexts(parameter, renamed.length === 0 ? named : [...named, ...renamed], isMalformed);
      if ("value" in result) values[name] = result.value;
      else {
        const usedName = named.length === 0 && renamed.length > 0 ? synonym : name;
        errors.push({ parameter: usedName ?? name, message: result.error });
      }
    }
    for (const name of otherMoments) {
      if (texts.ofQuery(name).length > 0) errors.push({ parameter: name, message: `is not taken here: ${hint}` });
    }
    Object.assign(values, derive?.(values as Partial<ValuesOf<Params, Query>>));
    if (validate) errors.push(...validate(values as Partial<ValuesOf<Params, Query>> & Derived));
    if (errors.length > 0) throw badParameters(errors);
    return values as ValuesOf<Params, Query> & Derived;
  };

  return {
    request: { params: z.object(params), query: z.object(query) },

    /** Reads the parameters of a request. */
    read: (c: ApiContext) => {
      const queries = c.req.queries();
      return parse({
        ofPath: (name) => c.req.param(name),
        ofQuery: (name) => queries[name] ?? NO_TEXTS,
        malformed: findMalformedNames(c.req.url),
      });
    },

    /** Reads query parameters from elsewhere. @param textsOf - returns the texts of a parameter */
    readTexts: (textsOf: (name: string) => readonly string[]) =>
      parse({ ofPath: () => undefined, ofQuery: textsOf, malformed: NO_NAMES }),
  };
};

/** Texts of a request's parameters. */
type Texts = {
  ofPath: (name: string) => string | undefined;
  ofQuery: (name: string) => readonly string[];
  /** Parameters whose values cannot be decoded. */
  malformed: ReadonlySet<string>;
};

export const badParameters = (errors: readonly ParameterError[]) =>
  new Problem("bad-parameter", errors.map(({ parameter, message }) => `${parameter} ${message}.`).join(" "), {
    errors,
  });

type QueryParameter = {
  name: string;
  synonym: string | undefined;
  schema: z.ZodType;
  isList: boolean;
  isRequired: boolean;
  defaultValue: unknown;
};

const NO_TEXTS: readonly string[] = [];

/** Parses a query parameter, which may occur any number of times under any of its names. */
const parseTexts = (
  { name, synonym, schema, isList, isRequired, defaultValue }: QueryParameter,
  texts: readonly string[],
  isMalformed: boolean,
): { value: unknown } | { error: string } => {
  const [text, ...others] = texts;
  if (text === undefined) {
    if (!isRequired) return { value: defaultValue };
    return { error: `is required${synonym === undefined ? "" : ` (or its other name, ${synonym})`}` };
  }
  if (name === UNREPEATABLE && !isList && others.length > 0) return { error: "must be given once" };
  if (isMalformed) return { error: "is not properly percent-encoded" };
  if (isList) {
    const parsed = schema.safeParse(texts);
    return parsed.success ? { value: parsed.data } : { error: messageOf(parsed.error) };
  }
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

const messageOf = ({ issues: [first] }: z.ZodError): string => first?.message ?? "is invalid";

const NO_NAMES: ReadonlySet<string> = new Set();

/** Finds the parameters whose values cannot be decoded. Hono passes such a value on without decoding it. */
const findMalformedNames = (url: string): ReadonlySet<string> => {
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
