import type { VerifySignature } from "./verify-signature.ts";

/** Verifies signatures with viem, which takes longer to load than the rest of the API: when the first one signs in. */
export const loadVerifierLater = (rpcUrls: ReadonlyMap<number, readonly string[]>): VerifySignature => {
  let loading: Promise<VerifySignature> | undefined;
  return async (signed) => {
    loading ??= import("./verify-signature.ts").then(({ createVerifier }) => createVerifier(rpcUrls));
    return (await loading)(signed);
  };
};
