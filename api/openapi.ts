import type { ApiApp } from "./context.ts";

const DESCRIPTION = `May this hot wallet act for that cold wallet? Delegations in the v1 and v2 registries, on every network that is indexed here.

A check answers with \`true\`, \`false\` or the digits of a balance, and nothing else. Every answer says at which block it is true. What cannot be answered is never \`false\` and never \`[]\`: it is a problem document (RFC 9457).

Without an API key, so many requests are answered in so many seconds for one address as \`RateLimit-Policy\` says: 25 in 10 seconds, unless the service was set up otherwise. Health, this description and preflights do not count.`;

const describeKey = (hasPortal: boolean): string => {
  const from = hasPortal
    ? "made at /developers, or issued by whoever runs the service"
    : "issued by whoever runs the service";
  return `Lifts the rate limit. A key is ${from}; every operation can be used without one.`;
};

/**
 * The OpenAPI document of the routes that an app has by now. What the developer page asks is not in it: that is no
 * contract, and changes with the page.
 */
export const describeService = (app: ApiApp, version: string, hasPortal: boolean) => {
  app.openAPIRegistry.registerComponent("securitySchemes", "apiKey", {
    type: "apiKey",
    in: "header",
    name: "X-API-KEY",
    description: describeKey(hasPortal),
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
      { name: "health", description: "For whoever runs the service." },
    ],
  });
};

export type ServiceDescription = ReturnType<typeof describeService>;
