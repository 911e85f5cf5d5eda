import type { ProblemName } from "../problem.ts";

/** The meaning of each problem, and what a client can do. TypeScript rejects a problem without an explanation. */
export const PROBLEM_EXPLANATIONS: Record<ProblemName, { meaning: string; next: string }> = {
  "bad-parameter": {
    meaning:
      "A parameter is missing or malformed, is repeated with different values, or names a network that is not indexed here. `errors` names every bad parameter.",
    next: "Correct the parameters. The same request fails again.",
  },
  "bad-request": {
    meaning: "The request is not valid HTTP.",
    next: "Use an ordinary HTTP client. If you do, look for a proxy that alters requests.",
  },
  "unknown-key": {
    meaning:
      "The `X-API-KEY` header has a key that is misspelt, unknown or revoked, or whose owner is blocked. `detail` says which.",
    next: "Correct the key, or leave out the header: every operation works without a key, up to the rate limit.",
  },
  "not-signed-in": {
    meaning: "The browser is not signed in to the developer page, or its session has ended. A session lasts 12 hours.",
    next: "Sign in at /developers.",
  },
  "sign-in-refused": {
    meaning:
      "The wallet could not sign in to the developer page: the message is not the one that this browser was given, is too old or already used, or its signature is wrong.",
    next: "Start again at /developers, and sign the message without changes.",
  },
  "account-blocked": {
    meaning:
      "The operator has blocked this account of the developer page. Its keys are refused, and its webhooks get no messages.",
    next: "Ask the operator. Every operation works without a key, up to the rate limit.",
  },
  "cross-site": {
    meaning: "A page of another site sent a request that only the developer page may send.",
    next: "Use the developer page at the address in `detail`. Programs send an API key instead.",
  },
  "not-found": {
    meaning: "This path does not exist. A wallet without delegations is not an error: its list is `[]`.",
    next: "Compare the path with the operations on this page.",
  },
  "method-not-allowed": {
    meaning: "The service is read-only. The `Allow` header names the supported methods.",
    next: "Send a GET, with all parameters in the URL; to /registry/checks, a POST.",
  },
  "request-timeout": {
    meaning: "The connection was open, but the request did not arrive in time.",
    next: "Try again. If it happens often, check the network and any proxy in between.",
  },
  "too-many-keys": {
    meaning: "The wallet has the maximum number of API keys.",
    next: "Revoke an unused key, or ask the operator of the service.",
  },
  "too-many-webhooks": {
    meaning: "The wallet has the maximum number of webhooks, or all wallets of this service together have.",
    next: "Delete one that is not used, or ask the operator of the service.",
  },
  "webhook-paused": {
    meaning: "The message was not delivered, and its webhook is paused. Messages come in order.",
    next: "Resume the webhook: it goes on with this message.",
  },
  "body-too-large": {
    meaning: "The body is larger than the service accepts. `detail` has the limit.",
    next: "Send a smaller body: fewer checks at a time.",
  },
  "url-too-long": {
    meaning: "The URL is several times longer than any operation needs.",
    next: "Leave out parameters that the operation does not have.",
  },
  "unsupported-body": {
    meaning: "A body must be JSON.",
    next: "Send JSON, with `Content-Type: application/json`.",
  },
  "proof-unavailable": {
    meaning:
      "The answer was to have a proof, and there is none: a 400 if this service has none for the network, a 503 while no node of it responds in time or has the state of the block.",
    next: "For a 503, try again after the seconds in `Retry-After`, or with `block=finalized`: few nodes keep the state of old blocks. Without `proof`, the answer is the index's.",
  },
  "rate-limited": {
    meaning:
      "This address sent more requests within a few seconds than the limit without an API key allows. `RateLimit-Policy` gives the limit. Each check in a body is one request. On the developer page: too many sign-ins from this address, or too many new keys of a wallet; `detail` says which.",
    next: "Wait for the seconds in `Retry-After`: the next request is then admitted. For more, use v2 with an API key.",
  },
  "headers-too-large": {
    meaning: "The URL and the headers together are larger than the service accepts.",
    next: "Send fewer headers. The API does not use cookies, for example.",
  },
  "internal-error": {
    meaning: "The service failed unexpectedly; the request may be correct. `detail` has the request id.",
    next: "Try again. If the error persists, tell the operator the request id, which leads to the cause in the log.",
  },
  "not-indexed": {
    meaning:
      "The index of this network is not complete yet, or has not reached the block that you ask for: any answer could be wrong. This is neither `false` nor `[]`.",
    next: "Try again after the seconds in `Retry-After`. `/status` shows the progress of each network.",
  },
  "index-differs": {
    meaning:
      "The service compares its index with the registries all the time, and has found a wallet for which they differ: a provider has lost logs. Until that is repaired it answers nothing for this network. This is neither `false` nor `[]`.",
    next: "Try again after the seconds in `Retry-After`. `/status` names the difference.",
  },
  "stale-index": {
    meaning:
      "The newest indexed block of this network is too old: delegations may have been made or revoked since. This is neither `false` nor `[]`.",
    next: "Try again after the seconds in `Retry-After`. `/status` shows the lag of each network.",
  },
  "database-unavailable": {
    meaning: "The service cannot reach its database. It never answers from a cache.",
    next: "Try again after the seconds in `Retry-After`.",
  },
  "network-unavailable": {
    meaning: "A smart-contract wallet wants to sign in, but its network does not respond.",
    next: "Try again after the seconds in `Retry-After`.",
  },
  overloaded: {
    meaning: "The service has too much work to answer this request in time.",
    next: "Try again after the seconds in `Retry-After`. Read a long list in pages, with `limit`.",
  },
};
