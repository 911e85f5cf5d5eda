import { z } from "@hono/zod-openapi";
import type { Verification } from "./read-shards.ts";

export const VerificationSchema = z
  .object({
    wallets: z.int().openapi({ description: "Comparisons of a wallet's delegations that agreed, so far." }),
    block: z.int().openapi({ description: "Every wallet that changed up to this block was compared." }),
    at: z.iso.datetime().openapi({ description: "When wallets were last compared." }),
  })
  .nullable()
  .openapi({
    description:
      "The comparison of the index with the registries' own state. Null until it agrees: the chain is not answered for.",
  });

export const showVerification = ({ wallets, block, at }: Verification): z.infer<typeof VerificationSchema> =>
  block === null || at === null ? null : { wallets, block, at: at.toISOString() };
