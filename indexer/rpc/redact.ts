const ANY_URL = /\b(?:https?|wss?):\/\/[^\s"'`]+/g;

/** Removes the parts of a URL that may be secret: credentials, path and query. */
export const redactUrl = (url: string): string => {
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
};

/** Redacts the URLs in an error and its causes. viem puts the whole URL into several fields of an error. */
export const redactError = (error: unknown): unknown => {
  if (!(error instanceof Error)) return error;
  for (const [name, { value, writable }] of Object.entries(Object.getOwnPropertyDescriptors(error))) {
    if (writable) Object.assign(error, { [name]: redactValue(value) });
  }
  redactError(error.cause);
  return error;
};

const redactValue = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(redactValue);
  if (typeof value !== "string") return value;
  return value.replaceAll(ANY_URL, (url) => (URL.canParse(url) ? redactUrl(url) : "(a URL)"));
};
