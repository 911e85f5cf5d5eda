/** Parts of an OpenAPI document that tests read. */
export type Description = {
  openapi: string;
  paths: Record<
    string,
    {
      get: {
        operationId: string;
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
      };
    }
  >;
};
