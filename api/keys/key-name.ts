import { z } from "zod";
import { looksLikeKey } from "./api-key.ts";

const MAX_KEY_NAME_LENGTH = 64;

const NOT_PLAIN = `must be 1 to ${MAX_KEY_NAME_LENGTH} characters of plain text on one line`;

/** Printable characters: no control characters, no marks that change the direction of text, nothing invisible. */
const PRINTABLE = /^(?:(?!\p{Default_Ignorable_Code_Point})[\p{L}\p{M}\p{N}\p{P}\p{S} ])*$/u;

/** The name of a key. It is shown beside prefixes of keys, and commands accept either, so it must not look like one. */
export const keyName = z
  .string({ error: NOT_PLAIN })
  .trim()
  .min(1, { error: NOT_PLAIN })
  .max(MAX_KEY_NAME_LENGTH, { error: NOT_PLAIN })
  .regex(PRINTABLE, { error: NOT_PLAIN })
  .refine((name) => !looksLikeKey(name), { error: "must not begin like a key" });
