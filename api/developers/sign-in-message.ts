import type { Address } from "viem";
import { createSiweMessage, parseSiweMessage, type SiweMessage } from "viem/siwe";

// The message that a wallet signs to sign in: Sign-In with Ethereum, EIP-4361.

/** Maximum time from the challenge to the signature. */
export const SIGN_IN_MS = 600_000;
/** Maximum difference between the clocks of two API processes. */
const MAX_CLOCK_SKEW_MS = 60_000;

const STATEMENT = "Sign in to manage your API keys. This is free and sends no transaction.";

/** The site that people sign in to. */
export type Site = { origin: string };

export type SignInRequest = { address: Address; chainId: number; nonce: string };

const domainOf = ({ origin }: Site): string => new URL(origin).host;
const uriOf = ({ origin }: Site): string => `${origin}/developers`;

/** Checks that a message can name a site: it allows names with a dot, IPv4 addresses and localhost. */
export const canNameSite = (site: Site): boolean => {
  try {
    formatSignInMessage(site, { address: `0x${"0".repeat(40)}`, chainId: 1, nonce: "0".repeat(8) }, new Date());
    return true;
  } catch {
    return false;
  }
};

export const formatSignInMessage = (site: Site, request: SignInRequest, now: Date): string =>
  createSiweMessage({
    ...request,
    domain: domainOf(site),
    uri: uriOf(site),
    version: "1",
    statement: STATEMENT,
    issuedAt: now,
    expirationTime: new Date(now.getTime() + SIGN_IN_MS),
  });

/** A valid message, or the reason for its refusal. */
export type ParsedSignIn = { request: SignInRequest } | { refusal: string };

/** Parses and validates a signed message, but neither its signature nor its nonce. */
export const parseSignInMessage = (text: string, site: Site, now: Date): ParsedSignIn => {
  const message = parseSiweMessage(text);
  // viem finds fields anywhere in the text. Formatting them again must give the same text.
  if (!isComplete(message) || formatAgain(message) !== text) {
    return { refusal: "This is not the message to sign. Start again, and sign it unchanged." };
  }
  const { address, chainId, nonce, domain, uri, issuedAt, expirationTime, notBefore } = message;
  if (domain !== domainOf(site)) return { refusal: "The message is for another domain." };
  if (uri !== uriOf(site)) return { refusal: "The message is for another page." };
  if (now >= expirationTime) return { refusal: "The message has expired." };
  if (issuedAt.getTime() > now.getTime() + MAX_CLOCK_SKEW_MS || (notBefore && now < notBefore)) {
    return { refusal: "The message is not valid yet." };
  }
  // Such a message would outlive its nonce and be useless, but nobody should sign one.
  if (expirationTime.getTime() - issuedAt.getTime() > SIGN_IN_MS) {
    return { refusal: "The message is valid for too long." };
  }
  return { request: { address, chainId, nonce } };
};

type CompleteMessage = SiweMessage & { issuedAt: Date; expirationTime: Date };

const isComplete = (message: Partial<SiweMessage>): message is CompleteMessage =>
  message.version === "1" &&
  message.address !== undefined &&
  message.domain !== undefined &&
  message.uri !== undefined &&
  message.nonce !== undefined &&
  message.chainId !== undefined &&
  message.issuedAt !== undefined &&
  message.expirationTime !== undefined;

const formatAgain = (message: CompleteMessage): string | null => {
  try {
    return createSiweMessage({ ...message, statement: STATEMENT });
  } catch {
    return null;
  }
};
