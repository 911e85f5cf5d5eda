import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { ROOT } from "./run.ts";

/** Parts of a JSON schema that tests read. */
export type Schema = {
  $ref?: string;
  type?: string | string[];
  enum?: (string | null)[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  description?: string;
  example?: string | number;
};

export type Parameter = { name: string; in: "path" | "query"; required?: boolean; schema: Schema };

type Response = {
  headers?: Record<string, { required?: boolean; schema?: Schema }>;
  content?: Record<string, { example?: unknown; schema?: Schema }>;
};

/** Parts of an operation that tests read. */
export type DescribedOperation = {
  operationId: string;
  requestBody?: { content: Record<string, { example?: unknown; schema?: Schema }> };
  parameters?: Parameter[];
  responses: Record<string, Response>;
  security?: Record<string, string[]>[];
};

/** Parts of an OpenAPI document that tests read. */
export type Description = {
  openapi: string;
  components?: { schemas?: Record<string, Schema> };
  paths: Record<string, Partial<Record<"get" | "post" | "delete", DescribedOperation>>>;
};

/** An operation whose schemas have no references. */
export type Operation = {
  /** As in "GET /registry/v2/{wallet}". */
  name: string;
  method: string;
  path: string;
  /** Methods of its path. */
  methods: string[];
  parameters: Parameter[];
  body: { schema: Schema; example: unknown } | null;
  takesKey: boolean;
  responses: Record<string, Response>;
  /** Describes how the body of a 200 differs from its schema. */
  findMismatch: (body: string) => string | null;
};

/** Lists the operations of a document. */
export const listOperations = ({ paths, components }: Pick<Description, "paths" | "components">): Operation[] => {
  const schemas = components?.schemas ?? {};
  const resolve = (schema: Schema): Schema =>
    JSON.parse(JSON.stringify(schema), (_, value) =>
      value?.$ref ? resolve(schemas[value.$ref.split("/").at(-1)] ?? {}) : value,
    );
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody, responses, security }]) => {
      const content = requestBody?.content["application/json"];
      return {
        name: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path,
        methods: Object.keys(methods).map((name) => name.toUpperCase()),
        parameters,
        body: content?.schema ? { schema: resolve(content.schema), example: content.example } : null,
        takesKey: security !== undefined,
        responses,
        findMismatch: createMatcher(resolve(responses[200]?.content?.["application/json"]?.schema ?? {})),
      };
    }),
  );
};

const createMatcher = (schema: Schema): ((body: string) => string | null) => {
  const parser = z.fromJSONSchema(schema as z.core.JSONSchema.JSONSchema);
  return (body) => {
    const result = parser.safeParse(JSON.parse(boundIntegers(body)));
    return result.success ? null : z.prettifyError(result.error);
  };
};

/** Shortens numbers outside texts: zod takes no number above 2^53 for an integer, and token ids may be any uint256. */
const boundIntegers = (json: string) =>
  json.replaceAll(/("(?:[^"\\]|\\.)*")|\b\d{16,}\b/g, (_, text?: string) => text ?? "1");

export const isOfType = ({ type }: Schema, name: string) => [type].flat().includes(name);

export const isArray = (schema: Schema) => isOfType(schema, "array");

type Field = { path: readonly string[]; schema: Schema; isRequired: boolean };

/** Lists the fields of a schema, with the names and array items that lead to them. */
export const listFields = (schema: Schema, path: readonly string[] = [], isRequired = false): Field[] => {
  const { properties = {}, required = [], items, anyOf = [] } = schema;
  return [
    { path, schema, isRequired },
    ...Object.entries(properties).flatMap(([name, field]) =>
      listFields(field, [...path, name], required.includes(name)),
    ),
    ...(items ? listFields(items, [...path, "item"]) : []),
    ...anyOf.flatMap((each) => listFields(each, path).slice(1)),
  ];
};

/** Writes JSON with one value replaced by a text that need not be JSON, or left out. */
export const replaceIn = (example: unknown, path: readonly string[], json: string | null): string => {
  const [name, ...rest] = path;
  if (name === undefined) return json ?? "";
  if (Array.isArray(example)) {
    // The last example has the most fields.
    const others = example.slice(0, -1).map((each) => JSON.stringify(each));
    return `[${[...others, replaceIn(example.at(-1), rest, json)].join()}]`;
  }
  const fields: Record<string, unknown> = { ...(example as object) };
  const written = Object.entries(fields).flatMap(([key, value]) =>
    key === name ? [] : [[key, JSON.stringify(value)]],
  );
  if (json !== null || rest.length > 0) written.push([name, replaceIn(fields[name], rest, json)]);
  return `{${written.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join()}}`;
};

const OPENAPI_FILE = join(ROOT, "docs/openapi.json");

/** The committed document. test/api/openapi.test.ts compares it with the served one. */
export const readDocument = (): Description => JSON.parse(readFileSync(OPENAPI_FILE, "utf8"));
