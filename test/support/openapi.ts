/** Parts of an OpenAPI document that tests read. */
export type Description = {
  openapi: string;
  components?: { schemas?: Record<string, object> };
  paths: Record<
    string,
    Partial<
      Record<
        "get" | "post",
        {
          operationId: string;
          requestBody?: { content: Record<string, { example?: unknown; schema?: object }> };
          parameters?: {
            name: string;
            in: "path" | "query";
            required?: boolean;
            schema: { example?: string | number };
          }[];
          responses: Record<
            string,
            {
              headers?: Record<string, { required?: boolean }>;
              content?: Record<string, { example?: unknown }>;
            }
          >;
        }
      >
    >
  >;
};
