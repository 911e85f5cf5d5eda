import type { ApiApp } from "./context.ts";

const DESCRIPTION = `May this hot wallet act for that cold wallet? Delegations in the v1 and v2 registries, on every indexed network.

A check returns \`true\`, \`false\` or the digits of a balance, and nothing else. Headers name the block at which the answer holds. If the service does not know the answer, it never returns \`false\` or \`[]\`, but a problem document (RFC 9457).

Without an API key, each address may send 25 requests in 10 seconds, unless the operator sets another limit; \`RateLimit-Policy\` gives the current one. Health, this document and preflights do not count.`;

const describeKey = (hasDeveloperPage: boolean): string => {
  const source = hasDeveloperPage
    ? "at /developers, or from the operator of the service"
    : "from the operator of the service";
  return `Lifts the rate limit. Get a key ${source}. Every operation works without one.`;
};

/**
 * Creates the OpenAPI document of the routes added so far. It omits the routes of the developer page, which are no
 * public contract and change with the page.
 */
export const describeService = (app: ApiApp, version: string, hasDeveloperPage: boolean) => {
  app.openAPIRegistry.registerComponent("securitySchemes", "apiKey", {
    type: "apiKey",
    in: "header",
    name: "X-API-KEY",
    description: describeKey(hasDeveloperPage),
  });
  return app.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "Delegation registry",
      version,
      description: DESCRIPTION,
      license: { name: "MIT" },
    },
    servers: [{ url: "/" }],
    tags: [
      { name: "v2", description: "The v2 registry: rights, and tokens by standard." },
      { name: "v1", description: "The v1 registry." },
      { name: "wallets", description: "Both registries, on several networks: for which wallets a wallet may act." },
      { name: "changes", description: "Both registries, on several networks: every change, as it happens." },
      { name: "bulk", description: "Both registries, many checks in one request." },
      { name: "health", description: "For operators of the service." },
    ],
  });
};

export type ServiceDescription = ReturnType<typeof describeService>;
