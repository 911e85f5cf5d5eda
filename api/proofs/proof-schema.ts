import { z } from "@hono/zod-openapi";

const bytes = (description?: string) =>
  z
    .string()
    .regex(/^0x([0-9a-f]{2})*$/)
    .openapi({ pattern: "^0x([0-9a-f]{2})*$", ...(description && { description }) });

/** An answer with its proof, as the client's verifyProof() takes it. */
export const ProofSchema = z
  .object({
    result: z.union([z.boolean(), z.string()]).openapi({ description: "True, false, or the digits of a balance." }),
    chainId: z.int(),
    registry: z.enum(["v1", "v2"]),
    check: z.string(),
    parameters: z.record(z.string(), z.string()).openapi({
      description: "`delegate`, `vault`, and what else the check takes: the token id in digits, rights as bytes32.",
    }),
    block: z.object({ number: z.int(), hash: bytes(), header: bytes("The header, whose hash is the block's.") }),
    account: z.object({
      address: bytes("The registry."),
      proof: z.array(bytes()).openapi({ description: "Nodes of the state's trie, from its root." }),
    }),
    storage: z
      .array(
        z.object({
          slot: bytes(),
          value: bytes(),
          proof: z.array(bytes()).openapi({ description: "Nodes of the registry's trie, from its root." }),
        }),
      )
      .openapi({ description: "The words of the registry's storage that decide the answer." }),
  })
  .openapi("Proof");
