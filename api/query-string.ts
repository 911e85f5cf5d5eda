/** Tells every pair of a query string, as it is written. */
export const readQueryString = (url: string, tell: (name: string, value: string) => void): void => {
  let start = url.indexOf("?") + 1;
  const fragment = url.indexOf("#");
  const end = fragment === -1 ? url.length : fragment;
  if (start === 0) return;
  while (start < end) {
    const separator = url.indexOf("&", start);
    const pairEnd = separator === -1 || separator > end ? end : separator;
    const equals = url.indexOf("=", start);
    const nameEnd = equals === -1 || equals > pairEnd ? pairEnd : equals;
    if (pairEnd > start) tell(url.slice(start, nameEnd), url.slice(nameEnd + 1, pairEnd));
    start = pairEnd + 1;
  }
};

/** What a part of a query string means; null where it cannot be decoded. */
export const decodeQueryPart = (text: string): string | null => {
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return null;
  }
};
