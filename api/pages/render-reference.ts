import { html } from "hono/html";
import type { ServiceDescription } from "../openapi.ts";
import { PROBLEMS, Problem, type ProblemName, problemDocument } from "../problem.ts";
import { PROBLEM_EXPLANATIONS } from "./problem-explanations.ts";
import { createExample, describeType, listFields, type Schema, type Schemas } from "./reference-schema.ts";

type Operation = NonNullable<NonNullable<ServiceDescription["paths"]>[string]["get"]>;
type Parameter = Extract<NonNullable<Operation["parameters"]>[number], { name: string }>;
type Response = Exclude<NonNullable<NonNullable<Operation["responses"]>["default"]>, { $ref: string }>;
type Header = NonNullable<Response["headers"]>[string];

/** Escaped HTML. Hono allows promises in it, so that it may be one. */
type Html = ReturnType<typeof html>;

/** Renders the API reference from the OpenAPI document. Its script is in web/reference/. */
export const renderReference = async (document: ServiceDescription): Promise<string> => {
  const { version, description = "" } = document.info;
  const schemas: Schemas = document.components?.schemas ?? {};
  const groups = groupOperations(document);

  const page = await html`<div class="reference">
<div class="side">
<p class="contents-bar"><a href="#content">Reference</a> <span class="version">${version}</span>
<button type="button" class="menu" popovertarget="contents">Contents</button></p>
${renderContents(groups)}
</div>
<main id="content" tabindex="-1">
<header class="intro">
<h1>API reference</h1>
${renderParagraphs(description)}
<p><a href="/openapi.json">OpenAPI document</a></p>
</header>
${groups.map(
  ({ name, about, operations }) => html`<section class="group" aria-labelledby="group-${name}">
<h2 id="group-${name}">${name}</h2>
${renderParagraphs(about)}
${operations.map((operation) => renderOperation(operation, schemas))}
</section>
`,
)}
${renderProblems()}
</main>
</div>`;
  return page.toString();
};

type DescribedOperation = Operation & { id: string; path: string; method: "get" | "post" };
type Group = { name: string; about: string; operations: DescribedOperation[] };

const groupOperations = ({ tags = [], paths = {} }: ServiceDescription): Group[] => {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    (["get", "post"] as const).flatMap((method): DescribedOperation[] => {
      const operation = methods[method];
      return operation ? [{ ...operation, path, method, id: operation.operationId ?? path }] : [];
    }),
  );
  return tags.map(({ name, description = "" }) => ({
    name,
    about: description,
    operations: operations.filter(({ tags = [] }) => tags.includes(name)),
  }));
};

/** Renders the contents: beside the page on a wide screen, behind a button on a narrow one. */
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
${listExplainedProblems().map(
  ({ name, status, title }) =>
    html`<li><a href="#problem-${name}"><span class="code">${status}</span> ${title}</a></li>\n`,
)}</ul>
</nav>`;

const renderOperation = (operation: DescribedOperation, schemas: Schemas): Html => {
  const { id, path, method, summary, description = "" } = operation;
  const body = findBody(operation);
  const parameters = (operation.parameters ?? []).filter((parameter) => "name" in parameter);
  const responses = Object.entries<Response>(operation.responses ?? {});
  const headers = new Set(responses.flatMap(([, { headers = {} }]) => Object.keys(headers)));

  return html`<article class="operation" id="${id}" aria-labelledby="${id}-title">
<header>
<h3 id="${id}-title"><a href="#${id}">${summary ?? path}</a></h3>
<p class="endpoint"><span class="method">${method.toUpperCase()}</span> <code id="${id}-path">${renderPath(path)}</code></p>
</header>
<div class="about">
${renderParagraphs(description)}
${parameters.length > 0 && renderParameters(id, parameters)}
${body && html`<h4>Body</h4>${renderFields(listFields(body.schema ?? {}, schemas))}`}
<h4>Responses</h4>
<dl class="responses">
${responses.map(([status, response]) => renderResponse(status, response, schemas))}</dl>
</div>
<div class="practice">
${renderTrial(operation, parameters, [...headers])}
${responses.map(([status, { content = {} }]) => {
  const json = content["application/json"];
  return json && renderExample(status, json.example ?? createExample(json.schema ?? {}, schemas));
})}
</div>
</article>
`;
};

/** Finds the JSON body of an operation's request. */
const findBody = ({ requestBody }: Operation): { schema?: Schema; example?: unknown } | undefined =>
  requestBody && "content" in requestBody ? requestBody.content["application/json"] : undefined;

const renderFields = (fields: ReturnType<typeof listFields>): Html =>
  renderTable(
    ["Field", "Type", "Description"],
    fields.map(({ name, type, description }) => [html`<code>${name}</code>`, type, renderInline(description)]),
  );

const renderPath = (path: string) =>
  path.split(/(\{\w+\})/).map((part, index) => (index % 2 === 1 ? html`<var>${part}</var>` : part));

const renderParameters = (id: string, parameters: readonly Parameter[]): Html => html`<h4>Parameters</h4>
${renderTable(
  ["Name", "In", "Required", "Default", "Description"],
  parameters.map((parameter) => {
    const schema: Schema = parameter.schema ?? {};
    return [
      html`<code>${parameter.name}</code> <small>${describeType(schema, {})}</small>`,
      parameter.in,
      parameter.required ? "required" : "optional",
      schema.default !== undefined && html`<code>${String(schema.default)}</code>`,
      html`<span id="${id}-${parameter.name}-about">${renderInline(parameter.description ?? "")}</span>`,
    ];
  }),
)}`;

const renderResponse = (status: string, response: Response, schemas: Schemas): Html => {
  const headers = Object.entries<Header>(response.headers ?? {});
  const schema: Schema = response.content?.["application/json"]?.schema ?? {};
  const fields = listFields(schema, schemas);
  const problems = Object.keys(response.content?.["application/problem+json"]?.examples ?? {});

  return html`<dt>${renderStatus(status)}</dt>
<dd>
${renderParagraphs(response.description)}
${schema.description && renderParagraphs(schema.description)}
${
  problems.length > 0 &&
  html`<ul class="causes">${problems.map((name) => html`<li><a href="#problem-${name}">${name}</a></li>`)}</ul>`
}
${
  headers.length > 0 &&
  renderDetails(
    `Headers (${headers.length})`,
    renderTable(
      ["Header", "Description"],
      headers.map(([name, { description = "" }]) => [html`<code>${name}</code>`, renderInline(description)]),
    ),
  )
}
${fields.length > 0 && renderDetails(`Fields (${fields.length})`, renderFields(fields))}
</dd>
`;
};

/** Renders a form that calls the operation, with its examples as values. Its script is web/reference/main.ts. */
const renderTrial = (operation: DescribedOperation, parameters: readonly Parameter[], headers: readonly string[]) => {
  const { id, path, security } = operation;
  const body = findBody(operation);
  return html`<form class="trial" data-path="${path}" data-headers="${headers.join(" ")}" aria-labelledby="${id}-trial ${id}-path">
<h4 id="${id}-trial">Try it</h4>
${
  (parameters.length > 0 || body) &&
  html`<div class="inputs">${body && renderBodyField(id, body.example)}${parameters.map((parameter) => renderField(id, parameter))}${security && renderKeyField(id)}</div>`
}
<div class="request">
<header>Request <button type="button" class="copy" aria-live="polite">Copy</button></header>
<code class="curl"></code>
</div>
<button type="submit">Send request</button>
<div class="result" aria-live="polite"></div>
</form>`;
};

const renderBodyField = (operationId: string, example: unknown): Html => html`<div class="field">
<label for="${operationId}-body">Body</label>
<textarea id="${operationId}-body" data-in="body" rows="12" autocomplete="off" autocapitalize="off" spellcheck="false">${formatJson(example)}</textarea>
</div>
`;

const renderField = (operationId: string, { name, in: place, required, schema = {} }: Parameter): Html => {
  const { type, example, default: initial, enum: values }: Schema = schema;
  const id = `${operationId}-${name}`;
  const value = example === undefined ? "" : String(example);
  const choices: unknown[] = values ?? (type === "boolean" ? [true, false] : []);
  const control =
    choices.length > 0
      ? html`<select id="${id}" name="${name}" data-in="${place}" aria-describedby="${id}-about">
<option value="">${initial === undefined ? "" : `${initial} (default)`}</option>
${choices.map((choice) => html`<option value="${String(choice)}"${String(choice) === value && html` selected`}>${String(choice)}</option>`)}
</select>`
      : html`<input id="${id}" name="${name}" data-in="${place}" value="${value}" placeholder="${initial === undefined ? "" : String(initial)}" aria-describedby="${id}-about" autocomplete="off" autocapitalize="off" spellcheck="false">`;
  return html`<div class="field${(type !== "string" || choices.length > 0) && " short"}">
<label for="${id}">${name}${required && html` <small>required</small>`}</label>
${control}
</div>
`;
};

/** Renders a field for a key, which is hidden and never leaves the page except in requests. */
const renderKeyField = (operationId: string): Html => html`<div class="field">
<label for="${operationId}-key">X-API-KEY <small>header, lifts the rate limit</small></label>
<input id="${operationId}-key" data-in="header" data-header="X-API-KEY" type="password" autocomplete="off">
</div>
`;

const renderExample = (status: string, example: unknown): Html => html`<figure class="example">
<figcaption>Example ${renderStatus(status)}</figcaption>
<pre tabindex="0"><code>${formatJson(example)}</code></pre>
</figure>`;

const formatJson = (value: unknown) => JSON.stringify(value, null, 2);

const renderProblems = (): Html => {
  const example = problemDocument(
    new Problem("bad-parameter", "to must be 0x and 40 hex digits.", {
      errors: [{ parameter: "to", message: "must be 0x and 40 hex digits" }],
    }),
  );
  return html`<section class="group" aria-labelledby="group-problems">
<h2 id="group-problems">Problems</h2>
<p>Every failed request gets a problem document (RFC 9457). Its <code>type</code> links to an explanation below; its <code>detail</code> names the cause in this request.</p>
${renderExample(String(example.status), JSON.parse(example.body))}
${listExplainedProblems().map(
  ({
    name,
    status,
    title,
    meaning,
    next,
  }) => html`<section class="problem" id="problem-${name}" aria-labelledby="problem-${name}-title">
<h3 id="problem-${name}-title">${renderStatus(String(status))} <a href="#problem-${name}">${title}</a></h3>
<p class="type"><code>/docs#problem-${name}</code></p>
<p>${renderInline(meaning)}</p>
<p><strong>What to do:</strong> ${renderInline(next)}</p>
</section>
`,
)}
</section>`;
};

const listExplainedProblems = () =>
  (Object.keys(PROBLEM_EXPLANATIONS) as ProblemName[]).map((name) => ({
    name,
    ...PROBLEMS[name],
    ...PROBLEM_EXPLANATIONS[name],
  }));

const renderStatus = (status: string) => html`<span class="status" data-class="${status.charAt(0)}">${status}</span>`;

const renderDetails = (title: string, content: Html) => html`<details><summary>${title}</summary>
${content}
</details>`;

type TableCell = Html | string | false;

/**
 * Renders a table whose first column has row headers. It needs explicit roles: on a narrow screen its rows are laid out
 * as blocks, and browsers then drop the table semantics.
 */
const renderTable = (columns: readonly string[], rows: readonly TableCell[][]): Html => {
  const renderCell = (value: TableCell, index: number) =>
    index === 0
      ? html`<th role="rowheader" scope="row">${value}</th>`
      : html`<td role="cell" data-column="${columns[index] ?? ""}">${value}</td>`;
  return html`<table role="table">
<thead role="rowgroup"><tr role="row">${columns.map((name) => html`<th role="columnheader" scope="col">${name}</th>`)}</tr></thead>
<tbody role="rowgroup">
${rows.map((row) => html`<tr role="row">${row.map(renderCell)}</tr>\n`)}</tbody>
</table>`;
};

/** Renders the Markdown of descriptions: paragraphs and `code`. */
const renderParagraphs = (text: string) =>
  text.split(/\n{2,}/).map((paragraph) => html`<p>${renderInline(paragraph)}</p>`);

/** Renders Markdown without paragraphs. */
const renderInline = (text: string) =>
  html`${text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`;
