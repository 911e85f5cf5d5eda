import "./reference.css";

// The "try it" forms of the API reference. A response is shown as text and never parsed, because JavaScript's numbers
// would round a balance of 2^256-1.

/** Longest response shown, in characters. Lists can be much longer. */
const MAX_SHOWN = 100_000;

/** Longest response that screen readers announce, in characters. */
const MAX_ANNOUNCED = 200;

type Field = HTMLInputElement | HTMLSelectElement;

const findFields = (form: HTMLFormElement) => form.querySelectorAll<Field>("input, select");

/** Finds an element that api/pages/render-reference.ts renders. */
const requireElement = (parent: ParentNode, selector: string): HTMLElement => {
  const found = parent.querySelector<HTMLElement>(selector);
  if (!found) throw new Error(`The page has no element "${selector}".`);
  return found;
};

/** Builds the path and query of a form's request, without empty fields. */
const buildPath = (form: HTMLFormElement): string => {
  let path = form.dataset.path ?? "";
  const query = new URLSearchParams();
  for (const { name, value, dataset } of findFields(form)) {
    // A quote would end the quoted URL in the curl command.
    const encoded = encodeURIComponent(value).replaceAll("'", "%27");
    if (dataset.in === "path") path = path.replace(`{${name}}`, () => encoded);
    if (dataset.in === "query" && value !== "") query.append(name, value);
  }
  return `${query}` === "" ? path : `${path}?${query}`;
};

/** Finds the field for an API key. Only some operations have one. */
const findKeyField = (form: HTMLFormElement) => form.querySelector<HTMLInputElement>('[data-in="header"]');

const buildHeaders = (form: HTMLFormElement): Record<string, string> => {
  const field = findKeyField(form);
  const key = field?.value.trim() ?? "";
  return key === "" ? {} : { [field?.dataset.header ?? ""]: key };
};

/** Finds the body of a form's request. Only some operations have one. */
const findBody = (form: HTMLFormElement): string | null =>
  form.querySelector<HTMLTextAreaElement>('[data-in="body"]')?.value ?? null;

const JSON_TYPE = { "Content-Type": "application/json" };

const showCurl = (form: HTMLFormElement): void => {
  // The key stays hidden from others who see the screen.
  const key = Object.keys(buildHeaders(form)).map((name) => ` -H "${name}: $API_KEY"`);
  const body = findBody(form);
  // A quote ends the quoted text in a shell.
  const data = body === null ? "" : ` -H 'Content-Type: application/json' -d '${body.replaceAll("'", "'\\''")}'`;
  requireElement(form, ".curl").textContent = `curl${key.join("")}${data} '${location.origin}${buildPath(form)}'`;
};

type ResponseText = { text: string; isComplete: boolean };

/** Reads up to `MAX_SHOWN` characters of a response. */
const readText = async ({ body }: Response): Promise<ResponseText> => {
  if (!body) return { text: "", isComplete: true };
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (text.length <= MAX_SHOWN) {
    const { done, value } = await reader.read();
    if (done) return { text, isComplete: true };
    text += value;
  }
  await reader.cancel();
  return { text: text.slice(0, MAX_SHOWN), isComplete: false };
};

/** Indents JSON, one value per line. Changes only whitespace, so that digits stay as they are. */
const indentJson = (json: string): string => {
  let depth = 0;
  const newLine = () => `\n${"  ".repeat(Math.max(0, depth))}`;
  return json.replace(/"(?:[^"\\]|\\.)*"|\[\s*\]|\{\s*\}|[[\]{},:]|\s+/g, (part) => {
    if (/^\s/.test(part)) return "";
    if (part === ":") return ": ";
    if (part === ",") return `,${newLine()}`;
    if (part === "[" || part === "{") {
      depth += 1;
      return `${part}${newLine()}`;
    }
    if (part === "]" || part === "}") {
      depth -= 1;
      return `${newLine()}${part}`;
    }
    return part;
  });
};

const createElement = (
  tag: string,
  attributes: Record<string, string>,
  ...children: (Node | string)[]
): HTMLElement => {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) created.setAttribute(name, value);
  created.append(...children);
  return created;
};

const renderHeaderValue = (name: string, value: string): (Node | string)[] => {
  if (name !== "X-Indexed-Block-Timestamp" || !/^\d{1,11}$/.test(value)) return [value];
  const [day, time] = new Date(Number(value) * 1000).toISOString().split(/[T.]/);
  return [`${value} `, createElement("time", {}, `${day} ${time} UTC`)];
};

/** Renders the response headers that the reference describes for this operation. */
const renderHeaders = (form: HTMLFormElement, headers: Headers): HTMLElement => {
  const names = (form.dataset.headers ?? "").split(" ").filter((name) => name !== "" && headers.has(name));
  const rows = names.flatMap((name) => [
    createElement("dt", {}, name),
    createElement("dd", {}, ...renderHeaderValue(name, headers.get(name) ?? "")),
  ]);
  return createElement("dl", {}, ...rows);
};

const renderBody = (text: string, type: string): HTMLElement => {
  const shown = /json/.test(type) ? indentJson(text) : text;
  const attributes = {
    class: text.startsWith("[") ? "list" : "",
    tabindex: "0",
    role: "group",
    "aria-label": "Response",
    "aria-live": text.length > MAX_ANNOUNCED ? "off" : "polite",
  };
  return createElement("pre", attributes, shown);
};

const renderResponse = (
  form: HTMLFormElement,
  response: Response,
  { text, isComplete }: ResponseText,
  milliseconds: number,
): HTMLElement[] => {
  const { status, statusText, headers } = response;
  const [, problem] = text.match(/"type":"\/docs(#problem-[\w-]+)"/) ?? [];
  const badge = createElement(
    "span",
    { class: "status", "data-class": String(status).charAt(0) },
    `${status} ${statusText}`,
  );
  const elements = [
    createElement("p", { class: "outcome" }, badge, ` in ${Math.round(milliseconds)} ms`),
    renderHeaders(form, headers),
    renderBody(text, headers.get("Content-Type") ?? ""),
  ];
  if (problem) elements.push(createElement("p", {}, createElement("a", { href: problem }, "What this problem means")));
  if (!isComplete) {
    elements.push(
      createElement("p", {}, `Only the first ${MAX_SHOWN} characters are shown. The curl command above fetches all.`),
    );
  }
  return elements;
};

const renderFailure = (): HTMLElement[] => [
  createElement(
    "p",
    { class: "failure" },
    "No complete response arrived: the service cannot be reached, or the connection broke. Check your connection and send the request again.",
  ),
];

/** The request in flight of each form. */
const inFlight = new WeakMap<HTMLFormElement, AbortController>();

const sendRequest = async (form: HTMLFormElement): Promise<void> => {
  inFlight.get(form)?.abort();
  const abort = new AbortController();
  inFlight.set(form, abort);
  const { signal } = abort;
  const result = requireElement(form, ".result");
  result.setAttribute("aria-busy", "true");
  const startedAt = performance.now();
  let shown: HTMLElement[];
  try {
    const body = findBody(form);
    const request = body === null ? {} : { method: "POST", body };
    const headers = { ...(body !== null && JSON_TYPE), ...buildHeaders(form) };
    const response = await fetch(buildPath(form), { cache: "no-store", ...request, headers, signal });
    const text = await readText(response);
    shown = renderResponse(form, response, text, performance.now() - startedAt);
  } catch {
    shown = renderFailure();
  }
  // The user has sent another request.
  if (signal.aborted) return;
  result.replaceChildren(...shown);
  result.removeAttribute("aria-busy");
};

const copyCurl = async (form: HTMLFormElement, button: HTMLElement): Promise<void> => {
  const curl = requireElement(form, ".curl");
  try {
    await navigator.clipboard.writeText(curl.textContent ?? "");
    button.textContent = "Copied";
  } catch {
    // Browsers have no clipboard API without HTTPS.
    getSelection()?.selectAllChildren(curl);
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, 2000);
};

const forms = [...document.querySelectorAll("form")];

/** Fills a key that was entered in one form into all of them. */
const shareKey = (value: string): void => {
  for (const form of forms) {
    const field = findKeyField(form);
    if (field) field.value = value;
    showCurl(form);
  }
};

for (const form of forms) {
  showCurl(form);
  form.addEventListener("input", ({ target }) => {
    const key = findKeyField(form);
    if (key && target === key) shareKey(key.value);
    else showCurl(form);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sendRequest(form);
  });
  const button = requireElement(form, ".copy");
  button.addEventListener("click", () => copyCurl(form, button));
}

const contents = requireElement(document, "#contents");
contents.addEventListener("click", ({ target }) => {
  const isLink = target instanceof Element && target.closest("a") !== null;
  if (isLink && contents.matches(":popover-open")) contents.hidePopover();
});

/** Marks the current section in the table of contents. */
const markCurrent = (id: string): void => {
  for (const link of contents.querySelectorAll("a")) {
    link.removeAttribute("aria-current");
    if (link.hash !== `#${id}`) continue;
    link.setAttribute("aria-current", "true");
    link.scrollIntoView({ block: "nearest" });
  }
};
const sectionObserver = new IntersectionObserver(
  (entries) => {
    const seen = entries.find(({ isIntersecting }) => isIntersecting);
    if (seen) markCurrent(seen.target.id);
  },
  // A narrow band near the top of the window, in which there is one section at a time.
  { rootMargin: "-10% 0px -89% 0px" },
);
for (const section of document.querySelectorAll(".intro, .operation, .problem")) sectionObserver.observe(section);
