import type { Address } from "viem";
import { createSiweMessage } from "viem/siwe";

// The message that a wallet signs to sign in: Sign-In with Ethereum, EIP-4361. It is only written here: what comes back
// is compared with it, so that no parser reads what others send.

/** Maximum time from the challenge to the signature. */
export const SIGN_IN_MS = 600_000;

const STATEMENT = "Sign in to manage your API keys. This is free and sends no transaction.";

/** The site that people sign in to. */
export type Site = { origin: string };

type SignInRequest = { address: Address; chainId: number; nonce: string };

/** Checks that a message can name a site: it allows names with a dot, IPv4 addresses and localhost. */
export const canNameSite = (site: Site): boolean => {
  try {
    formatSignInMessage(site, { address: `0x${"0".repeat(40)}`, chainId: 1, nonce: "0".repeat(8) }, new Date());
    return true;
  } catch {
    return false;
  }
};

export const formatSignInMessage = ({ origin }: Site, request: SignInRequest, now: Date): string =>
  createSiweMessage({
    ...request,
    domain: new URL(origin).host,
    uri: `${origin}/developers`,
    version: "1",
    statement: STATEMENT,
    issuedAt: now,
    expirationTime: new Date(now.getTime() + SIGN_IN_MS),
  });
