/** The parts of a JSON schema that the reference shows. */
export type Schema = {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  default?: unknown;
  example?: unknown;
  minimum?: number;
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
};

/** Schemas by name, for `$ref`. */
export type Schemas = Record<string, Schema>;

const resolveRef = (schema: Schema, schemas: Schemas): Schema => {
  const name = schema.$ref?.split("/").at(-1);
  return name === undefined ? schema : (schemas[name] ?? {});
};

/** Describes the type of a value, as in "string or null". */
export const describeType = (unresolved: Schema, schemas: Schemas): string => {
  const schema = resolveRef(unresolved, schemas);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.anyOf) return schema.anyOf.map((choice) => describeType(choice, schemas)).join(" or ");
  if (schema.items) return `array of ${describeType(schema.items, schemas)}`;
  return [schema.type ?? "any"].flat().join(" or ");
};

type SchemaField = { name: string; type: string; description: string };

/** Lists the fields of an object or of the objects in a list, and of nested objects. */
export const listFields = (unresolved: Schema, schemas: Schemas, prefix = ""): SchemaField[] => {
  const schema = resolveRef(unresolved, schemas);
  if (schema.items) return listFields(schema.items, schemas, prefix && `${prefix}[].`);
  return Object.entries<Schema>(schema.properties ?? {}).flatMap(([key, unresolvedField]) => {
    const field = resolveRef(unresolvedField, schemas);
    const name = `${prefix}${key}`;
    const type = describeType(field, schemas);
    return [
      {
        name,
        type: schema.required?.includes(key) ? type : `${type}, optional`,
        description: field.description ?? "",
      },
      ...listFields(field, schemas, field.items ? name : `${name}.`),
    ];
  });
};

/** Creates a value that a schema allows, for responses without an example. */
export const createExample = (unresolved: Schema, schemas: Schemas): unknown => {
  const schema = resolveRef(unresolved, schemas);
  const [type] = [schema.type].flat();
  if (schema.example !== undefined) return schema.example;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf?.[0]) return createExample(schema.anyOf[0], schemas);
  if (schema.items) return [createExample(schema.items, schemas)];
  if (schema.properties) {
    const fields = Object.entries<Schema>(schema.properties);
    return Object.fromEntries(fields.map(([key, field]) => [key, createExample(field, schemas)]));
  }
  if (type === "integer") return schema.minimum ?? 0;
  if (type === "boolean") return true;
  return schema.format === "date-time" ? new Date(0).toISOString() : "…";
};
