import { z } from "@hono/zod-openapi";
import { EXAMPLE_LIVE_CHANGE, LiveChange } from "../changes/change-routes.ts";
import type { ApiApp } from "../context.ts";

const timestamp = z.string().openapi({
  format: "date-time",
  description: "The time of the block; of an undo, when it was found; of a test, when it was requested.",
});

const headers = z.object({
  "webhook-id": z.string().openapi({ description: "The same in each attempt: whoever has seen it can ignore it." }),
  "webhook-timestamp": z.string().openapi({ description: "When it was sent, in seconds since 1970." }),
  "webhook-signature": z.string().openapi({
    description:
      "Signatures, separated by spaces: two for a day after the secret was replaced. One of them has to be right.",
  }),
});

const MESSAGES = {
  "delegation.changed": {
    description: "A delegation was made, changed in amount or revoked. In the order of each network, at least once.",
    data: LiveChange,
    example: EXAMPLE_LIVE_CHANGE,
  },
  "delegation.undone": {
    description:
      "With `finality=latest`, after a reorg: every change of this network after this block is void. What the chain has instead follows.",
    data: z.object({ chainId: z.int(), afterBlock: z.int() }),
    example: { chainId: 1, afterBlock: 20_000_000 },
  },
  "webhook.test": {
    description: "A user requested a test. It says nothing about delegations.",
    data: z.object({ webhook: z.string().openapi({ description: "The id of the webhook." }) }),
    example: { webhook: "wh_0123456789abcdef" },
  },
} as const;

/** Adds the messages of webhooks to the OpenAPI document. */
export const describeWebhooks = (app: ApiApp): void => {
  for (const [type, { description, data, example }] of Object.entries(MESSAGES)) {
    const schema = z.object({ type: z.literal(type), timestamp, data });
    const message = { type, timestamp: "2024-05-29T16:26:40.000Z", data: example };
    app.openAPIRegistry.registerWebhook({
      method: "post",
      path: type,
      operationId: type.replace(".", "-"),
      tags: ["changes"],
      summary: type,
      description: `${description} Signed as Standard Webhooks says. The operator of a service decides if it has webhooks.`,
      request: { headers, body: { content: { "application/json": { schema, example: message } } } },
      responses: { 204: { description: "Delivered, as any 2xx within 10 s." } },
    });
  }
};
