/** The values of a query string by name. A value that cannot be decoded is null: only whoever needs it is to complain. */
export const parseQueryString = (url: string): Map<string, (string | null)[]> => {
  const values = new Map<string, (string | null)[]>();
  const [beforeFragment = ""] = url.split("#", 1);
  const start = beforeFragment.indexOf("?");
  if (start === -1) return values;
  for (const pair of beforeFragment.slice(start + 1).split("&")) {
    if (pair === "") continue;
    const separator = pair.indexOf("=");
    const name = decode(separator === -1 ? pair : pair.slice(0, separator));
    if (name === null) continue;
    const value = separator === -1 ? "" : decode(pair.slice(separator + 1));
    const others = values.get(name);
    if (others) others.push(value);
    else values.set(name, [value]);
  }
  return values;
};

const decode = (text: string): string | null => {
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return null;
  }
};
