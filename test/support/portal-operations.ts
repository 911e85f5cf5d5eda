import { type DescribedOperation, type Description, listOperations, type Operation } from "./openapi.ts";

/** The message of session requests: a test may replace it by one that it was given. */
export const EXAMPLE_MESSAGE = "x wants you to sign in";

const describe = (example?: Record<string, string | number>): DescribedOperation => {
  const properties = Object.fromEntries(
    Object.entries(example ?? {}).map(([name, value]) => [
      name,
      { type: typeof value === "number" ? "integer" : "string" },
    ]),
  );
  const content = { "application/json": { example, schema: { properties } } };
  return { operationId: "", responses: {}, ...(example && { requestBody: { content } }) };
};

/** Paths of the developer page, which the document leaves out. */
const PATHS: Description["paths"] = {
  challenge: { post: describe({ address: `0x${"1".repeat(40)}`, chainId: 1 }) },
  session: {
    get: describe(),
    post: describe({ message: EXAMPLE_MESSAGE, signature: `0x${"1b".repeat(65)}` }),
    delete: describe(),
  },
  keys: { get: describe(), post: describe({ name: "key" }) },
  "keys/{prefix}": {
    delete: { ...describe(), parameters: [{ name: "prefix", in: "path", required: true, schema: { type: "string" } }] },
  },
};

/** The operations of the developer page. */
export const PORTAL_OPERATIONS: Operation[] = listOperations({
  paths: Object.fromEntries(Object.entries(PATHS).map(([path, methods]) => [`/developers/api/${path}`, methods])),
});
