import type { ServiceDescription } from "../openapi.ts";
import { PROBLEMS, Problem, type ProblemName, problemDocument } from "../problem.ts";

type Operation = NonNullable<NonNullable<ServiceDescription["paths"]>[string]["get"]>;
type Parameter = Extract<NonNullable<Operation["parameters"]>[number], { name: string }>;
type Response = Exclude<NonNullable<NonNullable<Operation["responses"]>["default"]>, { $ref: string }>;
type Header = NonNullable<Response["headers"]>[string];
/** What the page tells of a schema. */
type Schema = {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  default?: unknown;
  example?: unknown;
  minimum?: number;
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
};
/** The schemas that others refer to, by name. */
type Schemas = Record<string, Schema>;

/** What a problem means, and what whoever meets it can do. A problem without it does not compile. */
const EXPLANATIONS: Record<ProblemName, { meaning: string; next: string }> = {
  "bad-parameter": {
    meaning:
      "A parameter is missing or malformed, is given twice with different values, or names a network that is not indexed here. `errors` names every bad parameter at once.",
    next: "Correct them: the same request is refused again.",
  },
  "bad-request": {
    meaning: "What arrived cannot be read as an HTTP request.",
    next: "Send it with an ordinary HTTP client; if you do, look for a proxy on the way that alters requests.",
  },
  "unknown-key": {
    meaning:
      "The `X-API-KEY` header of a v2 request holds a key that is misspelt, not known here, or revoked. `detail` says which.",
    next: "Correct the key, or leave out the header: every operation can be used without one, up to the rate limit.",
  },
  "not-signed-in": {
    meaning: "Nobody is signed in to the developer page, or no longer: a session ends after 12 hours.",
    next: "Sign in at /developers.",
  },
  "sign-in-refused": {
    meaning:
      "A wallet could not sign in to the developer page: the message or its signature does not fit, is too old or was used before. `detail` says which.",
    next: "Start again at /developers, and sign the message as it is shown.",
  },
  "cross-site": {
    meaning: "A page of another site asked for what is for the developer page alone.",
    next: "Use the developer page at the address that `detail` names. Programs need none of this: they send a key.",
  },
  "not-found": {
    meaning: "There is nothing at this path. A wallet without delegations is not meant by that: its list is `[]`.",
    next: "Compare the path with the operations on this page.",
  },
  "method-not-allowed": {
    meaning: "The service only reads. The `Allow` header names the methods that it answers.",
    next: "Send a GET, with all parameters in the URL.",
  },
  "request-timeout": {
    meaning: "The connection was open, but the request did not arrive in time.",
    next: "Send it again; if that happens often, look at the network or the proxy on the way.",
  },
  "too-many-keys": {
    meaning: "The wallet has as many API keys as it may have.",
    next: "Revoke one that is no longer used, or ask whoever runs the service.",
  },
  "body-too-large": {
    meaning: "What the developer page was sent is larger than anything that it asks for.",
    next: "Send less.",
  },
  "url-too-long": {
    meaning: "The URL is several times longer than any question needs to be.",
    next: "Leave out parameters that the operation does not have.",
  },
  "unsupported-body": {
    meaning: "The developer page takes JSON, and nothing else.",
    next: "Send JSON, with `Content-Type: application/json`.",
  },
  "rate-limited": {
    meaning:
      "More requests came from this address within a few seconds than are answered without an API key. `RateLimit-Policy` says how many are.",
    next: "Wait for the seconds in `Retry-After`: the next request is then admitted. Whoever needs more asks v2 with an API key.",
  },
  "headers-too-large": {
    meaning: "The URL and the headers together are larger than the service reads.",
    next: "Send fewer headers: cookies, for example, are of no use here.",
  },
  "internal-error": {
    meaning: "Something went wrong in the service; the request may well be right. `detail` holds a number for it.",
    next: "Ask again. If it stays, tell whoever runs the service, with that number: it leads to the cause in the log.",
  },
  "not-indexed": {
    meaning: "Too little is known of this network yet, so any answer could be wrong. This is neither `false` nor `[]`.",
    next: "Ask again after the seconds in `Retry-After`. `/status` tells how far each network has come.",
  },
  "stale-index": {
    meaning:
      "The newest indexed block of this network is too old: delegations may have been made or revoked since. This is neither `false` nor `[]`.",
    next: "Ask again after the seconds in `Retry-After`. `/status` tells how far behind each network is.",
  },
  "database-unavailable": {
    meaning: "The service cannot reach its database, and does not answer from memory.",
    next: "Ask again after the seconds in `Retry-After`.",
  },
  "network-unavailable": {
    meaning: "A smart-contract wallet wants to sign in, and its network does not answer.",
    next: "Wait as long as `Retry-After` says, and try again.",
  },
  overloaded: {
    meaning: "There is more to do than the service can do in time, so it gave this request up.",
    next: "Ask again after the seconds in `Retry-After`. Ask for a long list in pages, with `limit`.",
  },
};

/** The content of the API reference, made of what the OpenAPI document says. What it does is in web/reference/. */
export const renderReference = (document: ServiceDescription): string => {
  const { version, description = "" } = document.info;
  const schemas: Schemas = document.components?.schemas ?? {};
  const groups = groupOperations(document);

  return html`<div class="reference">
<div class="side">
<p class="contents-bar"><a href="#content">Reference</a> <span class="version">${version}</span>
<button type="button" class="menu" popovertarget="contents">Contents</button></p>
${renderContents(groups)}
</div>
<main id="content" tabindex="-1">
<header class="intro">
<h1>API reference</h1>
${paragraphs(description)}
<p><a href="/openapi.json">OpenAPI document</a></p>
</header>
${groups.map(
  ({ name, about, operations }) => html`<section class="group" aria-labelledby="group-${name}">
<h2 id="group-${name}">${name}</h2>
${paragraphs(about)}
${operations.map((operation) => renderOperation(operation, schemas))}
</section>
`,
)}
${renderProblems()}
</main>
</div>`.text;
};

type DescribedOperation = Operation & { id: string; path: string };
type Group = { name: string; about: string; operations: DescribedOperation[] };

const groupOperations = ({ tags = [], paths = {} }: ServiceDescription): Group[] => {
  const operations = Object.entries(paths).flatMap(([path, { get }]) =>
    get ? [{ ...get, path, id: get.operationId ?? path }] : [],
  );
  return tags.map(({ name, description = "" }) => ({
    name,
    about: description,
    operations: operations.filter(({ tags = [] }) => tags.includes(name)),
  }));
};

/** A list beside the page on a wide screen, and behind a button on a narrow one. */
const renderContents = (
  groups: readonly Group[],
): Html => html`<nav id="contents" class="contents" popover aria-label="Contents">
${groups.map(
  ({ name, operations }) => html`<p id="contents-${name}">${name}</p>
<ul aria-labelledby="contents-${name}">
${operations.map(({ id, summary, path }) => html`<li><a href="#${id}">${summary ?? path}</a></li>\n`)}</ul>
`,
)}<p id="contents-problems">Problems</p>
<ul aria-labelledby="contents-problems">
${explainedProblems().map(
  ({ name, status, title }) =>
    html`<li><a href="#problem-${name}"><span class="code">${status}</span> ${title}</a></li>\n`,
)}</ul>
</nav>`;

const renderOperation = (operation: DescribedOperation, schemas: Schemas): Html => {
  const { id, path, summary, description = "" } = operation;
  const parameters = (operation.parameters ?? []).filter((parameter) => "name" in parameter);
  const responses = Object.entries<Response>(operation.responses ?? {});
  const headers = new Set(responses.flatMap(([, { headers = {} }]) => Object.keys(headers)));

  return html`<article class="operation" id="${id}" aria-labelledby="${id}-title">
<header>
<h3 id="${id}-title"><a href="#${id}">${summary ?? path}</a></h3>
<p class="endpoint"><span class="method">GET</span> <code id="${id}-path">${markVariables(path)}</code></p>
</header>
<div class="about">
${paragraphs(description)}
${parameters.length > 0 && renderParameters(id, parameters)}
<h4>Responses</h4>
<dl class="responses">
${responses.map(([status, response]) => renderResponse(status, response, schemas))}</dl>
</div>
<div class="practice">
${renderTrial(operation, parameters, [...headers])}
${responses.map(([status, response]) => renderExample(status, response, schemas))}
</div>
</article>
`;
};

const markVariables = (path: string) =>
  path.split(/(\{\w+\})/).map((part, index) => (index % 2 === 1 ? html`<var>${part}</var>` : part));

const renderParameters = (id: string, parameters: readonly Parameter[]): Html => html`<h4>Parameters</h4>
${renderTable(
  ["Name", "In", "Required", "Default", "Description"],
  parameters.map((parameter) => {
    const schema: Schema = parameter.schema ?? {};
    return [
      html`<code>${parameter.name}</code> <small>${typeOf(schema, {})}</small>`,
      parameter.in,
      parameter.required ? "required" : "optional",
      schema.default !== undefined && html`<code>${String(schema.default)}</code>`,
      html`<span id="${id}-${parameter.name}-about">${inline(parameter.description ?? "")}</span>`,
    ];
  }),
)}`;

const renderResponse = (status: string, response: Response, schemas: Schemas): Html => {
  const headers = Object.entries<Header>(response.headers ?? {});
  const schema: Schema = response.content?.["application/json"]?.schema ?? {};
  const fields = fieldsOf(schema, schemas);
  const problems = Object.keys(response.content?.["application/problem+json"]?.examples ?? {});

  return html`<dt>${statusBadge(status)}</dt>
<dd>
${paragraphs(response.description)}
${schema.description && paragraphs(schema.description)}
${
  problems.length > 0 &&
  html`<ul class="causes">${problems.map((name) => html`<li><a href="#problem-${name}">${name}</a></li>`)}</ul>`
}
${
  headers.length > 0 &&
  fold(
    `Headers (${headers.length})`,
    renderTable(
      ["Header", "Description"],
      headers.map(([name, { description = "" }]) => [html`<code>${name}</code>`, inline(description)]),
    ),
  )
}
${
  fields.length > 0 &&
  fold(
    `Fields (${fields.length})`,
    renderTable(
      ["Field", "Type", "Description"],
      fields.map(({ name, type, description }) => [html`<code>${name}</code>`, type, inline(description)]),
    ),
  )
}
</dd>
`;
};

/** A form that asks this service, filled in with the examples. What it does is in web/reference/main.ts. */
const renderTrial = (
  { id, path, security }: DescribedOperation,
  parameters: readonly Parameter[],
  headers: readonly string[],
) =>
  html`<form class="trial" data-path="${path}" data-headers="${headers.join(" ")}" aria-labelledby="${id}-trial ${id}-path">
<h4 id="${id}-trial">Try it</h4>
${
  parameters.length > 0 &&
  html`<div class="inputs">${parameters.map((parameter) => renderField(id, parameter))}${security && renderKeyField(id)}</div>`
}
<div class="request">
<header>Request <button type="button" class="copy" aria-live="polite">Copy</button></header>
<code class="curl"></code>
</div>
<button type="submit">Send request</button>
<div class="result" aria-live="polite"></div>
</form>`;

const renderField = (operationId: string, { name, in: place, required, schema = {} }: Parameter): Html => {
  const { type, example, default: initial, enum: values }: Schema = schema;
  const id = `${operationId}-${name}`;
  const value = example === undefined ? "" : String(example);
  const choices: unknown[] = values ?? (type === "boolean" ? [true, false] : []);
  const control =
    choices.length > 0
      ? html`<select id="${id}" name="${name}" data-in="${place}" aria-describedby="${id}-about">
<option value="">${initial === undefined ? "" : `${initial} (default)`}</option>
${choices.map((choice) => html`<option${String(choice) === value && html` selected`}>${String(choice)}</option>`)}
</select>`
      : html`<input id="${id}" name="${name}" data-in="${place}" value="${value}" placeholder="${initial === undefined ? "" : String(initial)}" aria-describedby="${id}-about" autocomplete="off" autocapitalize="off" spellcheck="false">`;
  return html`<div class="field${(type !== "string" || choices.length > 0) && " short"}">
<label for="${id}">${name}${required && html` <small>required</small>`}</label>
${control}
</div>
`;
};

/** A key stays on this page, and out of sight. */
const renderKeyField = (operationId: string): Html => html`<div class="field">
<label for="${operationId}-key">X-API-KEY <small>header, lifts the rate limit</small></label>
<input id="${operationId}-key" data-in="header" data-header="X-API-KEY" type="password" autocomplete="off">
</div>
`;

const renderExample = (status: string, { content = {} }: Response, schemas: Schemas): Html | false => {
  const body = content["application/json"];
  if (!body) return false;
  return html`<figure class="example">
<figcaption>Example ${statusBadge(status)}</figcaption>
<pre tabindex="0"><code>${layOut(body.example ?? exampleOf(body.schema ?? {}, schemas))}</code></pre>
</figure>`;
};

const layOut = (value: unknown) => JSON.stringify(value, null, 2);

const renderProblems = (): Html => {
  const example = problemDocument(
    new Problem("bad-parameter", "to must be 0x and 40 hex digits.", {
      errors: [{ parameter: "to", message: "must be 0x and 40 hex digits" }],
    }),
  );
  return html`<section class="group" aria-labelledby="group-problems">
<h2 id="group-problems">Problems</h2>
<p>What cannot be answered is answered with a problem document (RFC 9457). Its <code>type</code> leads here; its <code>detail</code> says what is wrong with this request in particular.</p>
<figure class="example">
<figcaption>Example ${statusBadge(String(example.status))}</figcaption>
<pre tabindex="0"><code>${layOut(JSON.parse(example.body))}</code></pre>
</figure>
${explainedProblems().map(
  ({
    name,
    status,
    title,
    meaning,
    next,
  }) => html`<section class="problem" id="problem-${name}" aria-labelledby="problem-${name}-title">
<h3 id="problem-${name}-title">${statusBadge(String(status))} <a href="#problem-${name}">${title}</a></h3>
<p class="type"><code>/docs#problem-${name}</code></p>
<p>${inline(meaning)}</p>
<p><strong>What to do:</strong> ${inline(next)}</p>
</section>
`,
)}
</section>`;
};

const explainedProblems = () =>
  (Object.keys(EXPLANATIONS) as ProblemName[]).map((name) => ({ name, ...PROBLEMS[name], ...EXPLANATIONS[name] }));

const statusBadge = (status: string) => html`<span class="status" data-class="${status.charAt(0)}">${status}</span>`;

const fold = (title: string, content: Html) => html`<details><summary>${title}</summary>
${content}
</details>`;

/**
 * A table whose rows are headed by their first cell. It says what it is in roles too: on a narrow screen its
 * rows are laid out as blocks, and browsers then forget that it is a table.
 */
const renderTable = (columns: readonly string[], rows: readonly Value[][]): Html => {
  const renderCell = (value: Value, index: number) =>
    index === 0
      ? html`<th role="rowheader" scope="row">${value}</th>`
      : html`<td role="cell" data-column="${columns[index] ?? ""}">${value}</td>`;
  return html`<table role="table">
<thead role="rowgroup"><tr role="row">${columns.map((name) => html`<th role="columnheader" scope="col">${name}</th>`)}</tr></thead>
<tbody role="rowgroup">
${rows.map((row) => html`<tr role="row">${row.map(renderCell)}</tr>\n`)}</tbody>
</table>`;
};

const resolve = (schema: Schema, schemas: Schemas): Schema => {
  const name = schema.$ref?.split("/").at(-1);
  return name === undefined ? schema : (schemas[name] ?? {});
};

/** The types of a value in words: "string or null". */
const typeOf = (unresolved: Schema, schemas: Schemas): string => {
  const schema = resolve(unresolved, schemas);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.anyOf) return schema.anyOf.map((choice) => typeOf(choice, schemas)).join(" or ");
  if (schema.items) return `array of ${typeOf(schema.items, schemas)}`;
  return [schema.type ?? "any"].flat().join(" or ");
};

type Field = { name: string; type: string; description: string };

/** The fields of an object, of the objects in a list, and of the objects within them. */
const fieldsOf = (unresolved: Schema, schemas: Schemas, prefix = ""): Field[] => {
  const schema = resolve(unresolved, schemas);
  if (schema.items) return fieldsOf(schema.items, schemas, prefix && `${prefix}[].`);
  return Object.entries<Schema>(schema.properties ?? {}).flatMap(([key, unresolvedField]) => {
    const field = resolve(unresolvedField, schemas);
    const name = `${prefix}${key}`;
    const type = typeOf(field, schemas);
    return [
      {
        name,
        type: schema.required?.includes(key) ? type : `${type}, optional`,
        description: field.description ?? "",
      },
      ...fieldsOf(field, schemas, field.items ? name : `${name}.`),
    ];
  });
};

/** A value that a schema allows, where nobody wrote a better example. */
const exampleOf = (unresolved: Schema, schemas: Schemas): unknown => {
  const schema = resolve(unresolved, schemas);
  const [type] = [schema.type].flat();
  if (schema.example !== undefined) return schema.example;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf?.[0]) return exampleOf(schema.anyOf[0], schemas);
  if (schema.items) return [exampleOf(schema.items, schemas)];
  if (schema.properties) {
    const fields = Object.entries<Schema>(schema.properties);
    return Object.fromEntries(fields.map(([key, field]) => [key, exampleOf(field, schemas)]));
  }
  if (type === "integer") return schema.minimum ?? 0;
  if (type === "boolean") return true;
  return schema.format === "date-time" ? new Date(0).toISOString() : "…";
};

/** The little Markdown that descriptions have: paragraphs and `code`. */
const paragraphs = (text: string) => text.split(/\n{2,}/).map((paragraph) => html`<p>${inline(paragraph)}</p>`);

const inline = (text: string) =>
  html`${text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`;

/** Text that is HTML already. Everything else is escaped on its way into a page. */
class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = Html | string | number | false | undefined | readonly Value[];

const html = (parts: TemplateStringsArray, ...values: Value[]): Html =>
  new Html(String.raw({ raw: parts }, ...values.map(toHtml)));

const toHtml = (value: Value): string => {
  if (value instanceof Html) return value.text;
  if (typeof value === "object") return value.map(toHtml).join("");
  return value === undefined || value === false ? "" : String(value).replaceAll(/[&<>"']/g, escapeCharacter);
};

const escapeCharacter = (character: string) => `&#${character.charCodeAt(0)};`;
