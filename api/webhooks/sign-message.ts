import { createHmac, randomBytes } from "node:crypto";

// Signatures as in Standard Webhooks: https://www.standardwebhooks.com.

const PREFIX = "whsec_";
const SECRET_BYTES = 24;

export const generateSecret = (): string => PREFIX + randomBytes(SECRET_BYTES).toString("base64");

type Message = { messageId: string; body: string };

/**
 * Creates the headers of a message.
 * @param secrets - during a rotation two: a receiver accepts a message if one of the signatures is right
 */
export const signMessage = (secrets: readonly string[], { messageId, body }: Message, now = Date.now()) => {
  const timestamp = Math.floor(now / 1000);
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(PREFIX.length), "base64");
    return `v1,${createHmac("sha256", key).update(`${messageId}.${timestamp}.${body}`).digest("base64")}`;
  });
  return {
    "webhook-id": messageId,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": signatures.join(" "),
  };
};
