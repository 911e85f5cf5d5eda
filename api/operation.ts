import type { RouteConfig } from "@asteasolutions/zod-to-openapi";
import type { Exchange, Reply } from "./exchange.ts";
import type { Parameter, ParametersOf, Reading, ReadingsOf } from "./parameters.ts";
import { type ParameterError, Problem } from "./problem.ts";
import { decodeQueryPart, readQueryString } from "./query-string.ts";
import type { Routes } from "./routes/routes.ts";
import { z } from "./zod.ts";

/** With or without an API key, which openapi.ts describes. */
const OPTIONAL_KEY: NonNullable<RouteConfig["security"]> = [{}, { apiKey: [] }];

/** What requests are held against. */
type Request<Values> = {
  /** With {name} for a part that varies. */
  path: string;
  parameters: ReadingsOf<Values>;
  /** What else is wrong with values that are right one by one. */
  check?: (values: Partial<Values>) => ParameterError[];
};

/** What an operation promises: its part of the OpenAPI document, and what its requests are held against. */
type Operation<Values> = Request<Values> & {
  operationId: string;
  tag: string;
  summary: string;
  description: string;
  parameters: ParametersOf<Values>;
  /** Whether an API key lifts its rate limit. */
  takesKey: boolean;
  responses: RouteConfig["responses"];
};

/** Adds an operation to the service and to its description. */
export const addOperation = <Values>(
  routes: Routes,
  operation: Operation<Values>,
  answer: (values: Values, exchange: Exchange) => Promise<Reply>,
): void => {
  const { path, operationId, tag, summary, description, parameters, takesKey, responses } = operation;
  routes.registry.registerPath({
    method: "get",
    path,
    operationId,
    tags: [tag],
    summary,
    description,
    request: { params: describe(parameters, "path"), query: describe(parameters, "query") },
    ...(takesKey && { security: OPTIONAL_KEY }),
    responses,
  });
  addQuestion(routes, operation, answer);
};

/** Adds to the service what its own pages ask, and the description leaves out. */
export const addQuestion = <Values>(
  routes: Routes,
  request: Request<Values>,
  answer: (values: Values, exchange: Exchange) => Promise<Reply>,
): void => {
  const parse = parser(request);
  routes.get(request.path, (exchange) => answer(parse(exchange), exchange));
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

/** What a request says of a parameter: a text, under one of its names. It is null where it cannot be decoded. */
type Given = { spelling: string; text: string | null };

/** Reads the values of a request's parameters. Throws a Problem that names every bad one. */
const parser = <Values>({ parameters, check }: Request<Values>): ((exchange: Exchange) => Values) => {
  const all = Object.entries<Reading<unknown>>(parameters);
  const places = new Map(
    all.flatMap(([name, { in: place, synonyms }], index) =>
      place === "query" ? [name, ...synonyms].map((spelling): [string, number] => [spelling, index]) : [],
    ),
  );

  return ({ url, varying }) => {
    const given: (Given[] | undefined)[] = new Array(all.length);
    readQueryString(url, (name, value) => {
      const spelling = decodeQueryPart(name) ?? "";
      const place = places.get(spelling);
      if (place === undefined) return;
      const one = { spelling, text: decodeQueryPart(value) };
      const others = given[place];
      if (others) others.push(one);
      else given[place] = [one];
    });

    const errors: ParameterError[] = [];
    const values: Record<string, unknown> = {};
    for (let index = 0; index < all.length; index++) {
      const [name, parameter] = all[index] as (typeof all)[number];
      const texts = parameter.in === "path" ? [{ spelling: name, text: varying }] : (given[index] ?? NOT_GIVEN);
      const parsed = parseParameter(parameter, texts);
      if ("value" in parsed) values[name] = parsed.value;
      else errors.push({ parameter: spellingOf(name, parameter, texts), message: parsed.error });
    }
    if (check) errors.push(...check(values as Partial<Values>));
    if (errors.length > 0) {
      const detail = errors.map(({ parameter, message }) => `${parameter} ${message}.`).join(" ");
      throw new Problem("bad-parameter", detail, { errors });
    }
    return values as Values;
  };
};

const NOT_GIVEN: readonly Given[] = [];

/** The name that a parameter was given by: its own, if by that as well. */
const spellingOf = (name: string, { synonyms }: Reading<unknown>, given: readonly Given[]): string =>
  [name, ...synonyms].find((spelling) => given.some((one) => one.spelling === spelling)) ?? name;

const parseParameter = (
  parameter: Reading<unknown>,
  given: readonly Given[],
): { value: unknown } | { error: string } => {
  const { synonyms, parse, must, isSingle } = parameter;
  const [first] = given;
  if (first === undefined) {
    if ("default" in parameter) return { value: parameter.default };
    return { error: synonyms.length > 0 ? `is required (or its other name, ${synonyms.join(", ")})` : "is required" };
  }
  if (isSingle && given.length > 1) return { error: "must be given once" };
  if (given.some(({ text }) => text === null)) return { error: "is not properly percent-encoded" };

  const value = parse(first.text ?? "");
  let isContradictory = false;
  for (const { text } of given) {
    const other = text === first.text ? value : parse(text ?? "");
    if (other === undefined) return { error: must };
    if (other !== value) isContradictory = true;
  }
  if (isContradictory) {
    return {
      error:
        synonyms.length > 0
          ? `is given with different values (also as ${synonyms.join(", ")})`
          : "is given with different values",
    };
  }
  return { value };
};
