import type { RpcUrls, VerifySignature } from "./verify-signature.ts";

/** Loads viem, which takes longer to load than the rest of the API, at the first sign-in. */
export const createLazyVerifier = (rpcUrls: RpcUrls, now?: () => number): VerifySignature => {
  let loading: Promise<VerifySignature> | undefined;
  return async (signed, client) => {
    loading ??= import("./verify-signature.ts").then(({ createVerifier }) => createVerifier(rpcUrls, now));
    return (await loading)(signed, client);
  };
};
