import { createRoute, type OpenAPIHono, type RouteConfig, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Parameter, ParametersOf } from "./parameters.ts";
import { type ParameterError, Problem } from "./problem.ts";
import { parseQueryString } from "./query-string.ts";

/** With or without an API key, which openapi.ts describes. */
const OPTIONAL_KEY: NonNullable<RouteConfig["security"]> = [{}, { apiKey: [] }];

/** What an operation promises: its part of the OpenAPI document, and what its requests are held against. */
export type Operation<Values> = {
  /** With {name} for a part that varies. */
  path: string;
  operationId: string;
  tag: string;
  summary: string;
  description: string;
  parameters: ParametersOf<Values>;
  /** Whether an API key lifts its rate limit. */
  takesKey: boolean;
  /** What else is wrong with values that are right one by one. */
  check?: (values: Partial<Values>) => ParameterError[];
  responses: RouteConfig["responses"];
};

/** Adds an operation to the service and to its description. */
export const addOperation = <Values>(
  app: OpenAPIHono,
  operation: Operation<Values>,
  answer: (values: Values, context: Context) => Promise<Response>,
): void => {
  const { path, operationId, tag, summary, description, parameters, takesKey, responses } = operation;
  app.openAPIRegistry.registerPath(
    createRoute({
      method: "get",
      path,
      operationId,
      tags: [tag],
      summary,
      description,
      request: { params: describe(parameters, "path"), query: describe(parameters, "query") },
      ...(takesKey && { security: OPTIONAL_KEY }),
      responses,
    }),
  );
  app.get(path.replaceAll(/\{(\w+)\}/g, ":$1"), (context) => {
    const values = parseParameters(operation, context);
    return answer(values, context);
  });
};

const describe = (parameters: ParametersOf<Record<string, unknown>>, place: Parameter<unknown>["in"]) =>
  z.object(
    Object.fromEntries(
      Object.entries(parameters).flatMap(([name, parameter]) => {
        if (parameter.in !== place) return [];
        return [[name, "default" in parameter ? parameter.schema.optional() : parameter.schema]];
      }),
    ),
  );

/** The values of a request's parameters. Throws a Problem that names every bad one. */
const parseParameters = <Values>({ parameters, check }: Operation<Values>, context: Context): Values => {
  const query = parseQueryString(context.req.url);
  const errors: ParameterError[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, parameter] of Object.entries<Parameter<unknown>>(parameters)) {
    const given =
      parameter.in === "path"
        ? [context.req.param(name) ?? null]
        : [name, ...parameter.synonyms].flatMap((spelling) => query.get(spelling) ?? []);
    const parsed = parseParameter(parameter, given);
    // By the name that it was given.
    const spelling = parameter.synonyms.find((synonym) => query.has(synonym) && !query.has(name)) ?? name;
    if ("error" in parsed) errors.push({ parameter: spelling, message: parsed.error });
    else values[name] = parsed.value;
  }
  errors.push(...(check?.(values as Partial<Values>) ?? []));
  if (errors.length > 0) {
    const detail = errors.map(({ parameter, message }) => `${parameter} ${message}.`).join(" ");
    throw new Problem("bad-parameter", detail, { errors });
  }
  return values as Values;
};

const parseParameter = (
  { schema, synonyms, isSingle, ...parameter }: Parameter<unknown>,
  given: readonly (string | null)[],
): { value: unknown } | { error: string } => {
  if (given.length === 0) {
    if ("default" in parameter) return { value: parameter.default };
    return { error: synonyms.length > 0 ? `is required (or its other name, ${synonyms.join(", ")})` : "is required" };
  }
  if (isSingle && given.length > 1) return { error: "must be given once" };

  const values: unknown[] = [];
  for (const text of given) {
    if (text === null) return { error: "is not properly percent-encoded" };
    const parsed = schema.safeParse(text);
    if (!parsed.success) return { error: parsed.error.issues[0]?.message ?? "is not valid" };
    values.push(parsed.data);
  }
  if (values.some((value) => value !== values[0])) {
    return {
      error:
        synonyms.length > 0
          ? `is given with different values (also as ${synonyms.join(", ")})`
          : "is given with different values",
    };
  }
  return { value: values[0] };
};
