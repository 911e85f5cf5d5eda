import "./reference.css";

// The "try it" forms of the API reference. An answer is shown as the text that came, never parsed: JavaScript's
// numbers would round a balance of 2^256-1.

/** A list can be of any length; what is longer than this is for curl. */
const LONGEST_SHOWN = 100_000;

/** Up to this length an answer is read out as it comes. */
const LONGEST_SPOKEN = 200;

type Field = HTMLInputElement | HTMLSelectElement;

const fieldsOf = (form: HTMLFormElement) => form.querySelectorAll<Field>("input, select");

/** What the page is made with is there: api/reference/ renders it. */
const find = (within: ParentNode, selector: string): HTMLElement => {
  const found = within.querySelector<HTMLElement>(selector);
  if (!found) throw new Error(`There is no ${selector} here.`);
  return found;
};

/** The path and query that a form asks for. Empty fields are left out. */
const requestPath = (form: HTMLFormElement): string => {
  let path = form.dataset.path ?? "";
  const query = new URLSearchParams();
  for (const { name, value, dataset } of fieldsOf(form)) {
    // A quote would end the quoted URL in the curl line.
    const encoded = encodeURIComponent(value).replaceAll("'", "%27");
    if (dataset.in === "path") path = path.replace(`{${name}}`, () => encoded);
    if (dataset.in === "query" && value !== "") query.append(name, value);
  }
  return `${query}` === "" ? path : `${path}?${query}`;
};

/** The field for an API key, where an operation takes one. */
const keyField = (form: HTMLFormElement) => form.querySelector<HTMLInputElement>('[data-in="header"]');

const requestHeaders = (form: HTMLFormElement): Record<string, string> => {
  const field = keyField(form);
  const key = field?.value.trim() ?? "";
  return key === "" ? {} : { [field?.dataset.header ?? ""]: key };
};

const showCurl = (form: HTMLFormElement): void => {
  // A key is not to be read over somebody's shoulder.
  const key = Object.keys(requestHeaders(form)).map((name) => ` -H "${name}: $API_KEY"`);
  find(form, ".curl").textContent = `curl${key.join("")} '${location.origin}${requestPath(form)}'`;
};

type Start = { text: string; isWhole: boolean };

/** The start of an answer's text. */
const readStart = async ({ body }: Response): Promise<Start> => {
  if (!body) return { text: "", isWhole: true };
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (text.length <= LONGEST_SHOWN) {
    const { done, value } = await reader.read();
    if (done) return { text, isWhole: true };
    text += value;
  }
  await reader.cancel();
  return { text: text.slice(0, LONGEST_SHOWN), isWhole: false };
};

/** JSON with a line for each value. Only the space between its parts changes: digits stay as they are. */
const layOut = (json: string): string => {
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

const element = (tag: string, attributes: Record<string, string>, ...children: (Node | string)[]): HTMLElement => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

const describeHeader = (name: string, value: string): (Node | string)[] => {
  if (name !== "X-Indexed-Block-Timestamp" || !/^\d{1,11}$/.test(value)) return [value];
  const [day, time] = new Date(Number(value) * 1000).toISOString().split(/[T.]/);
  return [`${value} `, element("time", {}, `${day} ${time} UTC`)];
};

/** The headers that the reference describes for this operation, as far as they came. */
const showHeaders = (form: HTMLFormElement, headers: Headers): HTMLElement => {
  const names = (form.dataset.headers ?? "").split(" ").filter((name) => name !== "" && headers.has(name));
  const rows = names.flatMap((name) => [
    element("dt", {}, name),
    element("dd", {}, ...describeHeader(name, headers.get(name) ?? "")),
  ]);
  return element("dl", {}, ...rows);
};

const showBody = (text: string, type: string): HTMLElement => {
  const shown = /json/.test(type) ? layOut(text) : text;
  const attributes = {
    class: text.startsWith("[") ? "list" : "",
    tabindex: "0",
    role: "group",
    "aria-label": "Answer",
    "aria-live": text.length > LONGEST_SPOKEN ? "off" : "polite",
  };
  return element("pre", attributes, shown);
};

const showAnswer = (form: HTMLFormElement, response: Response, { text, isWhole }: Start, milliseconds: number) => {
  const { status, statusText, headers } = response;
  const [, problem] = text.match(/"type":"\/docs(#problem-[\w-]+)"/) ?? [];
  const badge = element("span", { class: "status", "data-class": String(status).charAt(0) }, `${status} ${statusText}`);
  const shown = [
    element("p", { class: "outcome" }, badge, ` in ${Math.round(milliseconds)} ms`),
    showHeaders(form, headers),
    showBody(text, headers.get("Content-Type") ?? ""),
  ];
  if (problem) shown.push(element("p", {}, element("a", { href: problem }, "What this problem means")));
  if (!isWhole) {
    shown.push(element("p", {}, `These are the first ${LONGEST_SHOWN} characters. The curl line above fetches all.`));
  }
  return shown;
};

const showFailure = (): HTMLElement[] => [
  element(
    "p",
    { class: "failure" },
    "No whole answer arrived: the service cannot be reached, or the connection broke. Check the connection and send the request again.",
  ),
];

/** What each form is waiting for. */
const underWay = new WeakMap<HTMLFormElement, AbortController>();

const send = async (form: HTMLFormElement): Promise<void> => {
  underWay.get(form)?.abort();
  const asking = new AbortController();
  underWay.set(form, asking);
  const { signal } = asking;
  const result = find(form, ".result");
  result.setAttribute("aria-busy", "true");
  const startedAt = performance.now();
  let shown: HTMLElement[];
  try {
    const response = await fetch(requestPath(form), { cache: "no-store", headers: requestHeaders(form), signal });
    const answer = await readStart(response);
    shown = showAnswer(form, response, answer, performance.now() - startedAt);
  } catch {
    shown = showFailure();
  }
  // A later request has taken its place.
  if (signal.aborted) return;
  result.replaceChildren(...shown);
  result.removeAttribute("aria-busy");
};

const copyCurl = async (form: HTMLFormElement, button: HTMLElement): Promise<void> => {
  const curl = find(form, ".curl");
  try {
    await navigator.clipboard.writeText(curl.textContent ?? "");
    button.textContent = "Copied";
  } catch {
    // Without https there is no clipboard to write to.
    getSelection()?.selectAllChildren(curl);
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, 2000);
};

const forms = [...document.querySelectorAll("form")];

/** A key that was put into one form is there in all. */
const shareKey = (value: string): void => {
  for (const form of forms) {
    const field = keyField(form);
    if (field) field.value = value;
    showCurl(form);
  }
};

for (const form of forms) {
  showCurl(form);
  form.addEventListener("input", ({ target }) => {
    const key = keyField(form);
    if (key && target === key) shareKey(key.value);
    else showCurl(form);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
  const button = find(form, ".copy");
  button.addEventListener("click", () => copyCurl(form, button));
}

const contents = find(document, "#contents");
contents.addEventListener("click", ({ target }) => {
  const isLink = target instanceof Element && target.closest("a") !== null;
  if (isLink && contents.matches(":popover-open")) contents.hidePopover();
});

/** Marks in the contents what is being read. */
const markCurrent = (id: string): void => {
  for (const link of contents.querySelectorAll("a")) {
    link.removeAttribute("aria-current");
    if (link.hash !== `#${id}`) continue;
    link.setAttribute("aria-current", "true");
    link.scrollIntoView({ block: "nearest" });
  }
};
const reading = new IntersectionObserver(
  (entries) => {
    const seen = entries.find(({ isIntersecting }) => isIntersecting);
    if (seen) markCurrent(seen.target.id);
  },
  // A band near the top of the window: one section at a time is in it.
  { rootMargin: "-10% 0px -89% 0px" },
);
for (const section of document.querySelectorAll(".intro, .operation, .problem")) reading.observe(section);
