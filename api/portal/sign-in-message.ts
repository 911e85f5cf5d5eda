import type { Address } from "viem";
import { createSiweMessage, parseSiweMessage, type SiweMessage } from "viem/siwe";

// The text that a wallet signs to sign in: Sign-In with Ethereum, EIP-4361.

/** How long a sign-in may take, from the question to the signature. */
export const SIGN_IN_MS = 600_000;
/** How far the clocks of two API processes may differ. */
const CLOCK_SKEW_MS = 60_000;

const STATEMENT = "Sign in to manage your API keys. This is free and sends no transaction.";

/** Where people sign in: the origin of the page. */
export type Site = { origin: string };

export type SignInRequest = { address: Address; chainId: number; nonce: string };

const domainOf = ({ origin }: Site): string => new URL(origin).host;
const uriOf = ({ origin }: Site): string => `${origin}/developers`;

/** Whether a message can name a site: it takes names with a dot, IPv4 addresses and localhost. */
export const canNameSite = (site: Site): boolean => {
  try {
    writeSignInMessage(site, { address: `0x${"0".repeat(40)}`, chainId: 1, nonce: "0".repeat(8) }, new Date());
    return true;
  } catch {
    return false;
  }
};

/** What a wallet is asked to sign. */
export const writeSignInMessage = (site: Site, request: SignInRequest, now: Date): string =>
  createSiweMessage({
    ...request,
    domain: domainOf(site),
    uri: uriOf(site),
    version: "1",
    statement: STATEMENT,
    issuedAt: now,
    expirationTime: new Date(now.getTime() + SIGN_IN_MS),
  });

/** What a signed message says; or why it does not count here, for whoever signed it. */
export type Reading = { request: SignInRequest } | { refusal: string };

/** Reads a message that somebody claims to have signed. Nothing is said of the signature, or of the nonce. */
export const readSignInMessage = (text: string, site: Site, now: Date): Reading => {
  const message = parseSiweMessage(text);
  // viem finds the fields wherever they stand. Written anew, they have to make the same text.
  if (!isWhole(message) || rewrite(message) !== text) {
    return { refusal: "This is not the message that this page asks for." };
  }
  const { address, chainId, nonce, domain, uri, issuedAt, expirationTime, notBefore } = message;
  if (domain !== domainOf(site)) return { refusal: "The message is for another domain." };
  if (uri !== uriOf(site)) return { refusal: "The message is for another page." };
  if (now >= expirationTime) return { refusal: "The message has expired." };
  if (issuedAt.getTime() > now.getTime() + CLOCK_SKEW_MS || (notBefore && now < notBefore)) {
    return { refusal: "The message is not valid yet." };
  }
  // A message that outlives its nonce would still be of no use; but then nobody should sign one.
  if (expirationTime.getTime() - issuedAt.getTime() > SIGN_IN_MS) {
    return { refusal: "The message is valid for too long." };
  }
  return { request: { address, chainId, nonce } };
};

type WholeMessage = SiweMessage & { issuedAt: Date; expirationTime: Date };

const isWhole = (message: Partial<SiweMessage>): message is WholeMessage =>
  message.version === "1" &&
  message.address !== undefined &&
  message.domain !== undefined &&
  message.uri !== undefined &&
  message.nonce !== undefined &&
  message.chainId !== undefined &&
  message.issuedAt !== undefined &&
  message.expirationTime !== undefined;

const rewrite = (message: WholeMessage): string | null => {
  try {
    return createSiweMessage({ ...message, statement: STATEMENT });
  } catch {
    return null;
  }
};
