import { afterAll, beforeAll, expect, test } from "vitest";
import type { ServiceDescription } from "../../api/openapi.ts";
import { renderReference } from "../../api/pages/render-reference.ts";
import { PROBLEMS } from "../../api/problem.ts";
import { type Api, CHECK, launchSampleApi } from "../support/api.ts";

let api: Api;
let document: ServiceDescription;
let page: string;
let style: string;
let script: string;

const text = async (path: string) => (await api.get(path)).text();

beforeAll(async () => {
  api = await launchSampleApi();
  document = (await (await api.get("/openapi.json")).json()) as ServiceDescription;
  page = await text("/docs");
  style = await text(loaded(/\.css$/));
  script = await text(loaded(/reference-\w+\.js$/));
});
afterAll(() => api?.stop());

/** Finds all values of an attribute in the page. */
const findValues = (attribute: string) =>
  [...page.matchAll(new RegExp(` ${attribute}="([^"]*)"`, "g"))].map(([, value = ""]) => value);

/** Finds the URLs that the page loads, not those of its links. */
const loadedUrls = () =>
  [...page.matchAll(/<(?!a\b)\w+[^>]*? (?:src|srcset|href|data|poster)="([^"]*)"/g)].map(([, url = ""]) => url);
const loaded = (name: RegExp) => loadedUrls().find((url) => name.test(url)) ?? "";

const operations = () =>
  Object.entries(document.paths ?? {}).flatMap(([path, { get, post }]) => {
    const operation = get ?? post;
    return operation ? [{ path, operation, method: get ? "GET" : "POST" }] : [];
  });

/** Finds the section of an operation. */
const findSection = (id: string) => {
  const start = page.indexOf(`<article class="operation" id="${id}"`);
  return start === -1 ? "" : page.slice(start, page.indexOf("</article>", start));
};

test("the page loads only its own assets", () => {
  expect(loadedUrls()).toHaveLength(4);
  for (const url of loadedUrls()) expect(url).toMatch(/^\/assets\/[\w.-]+$/);
  expect(style).not.toMatch(/url\(|@import/);
  expect(script).not.toMatch(/https?:|["'`]\/\/|\bimport\b/);
});

test("every operation has a section with parameters, responses, an example and a filled-in form", () => {
  expect(operations().length).toBeGreaterThan(10);
  for (const { path, operation, method } of operations()) {
    const section = findSection(operation.operationId ?? "");
    expect(page).toContain(`<a href="#${operation.operationId}">${operation.summary}</a></li>`);
    expect(section).toContain(`<span class="method">${method}</span>`);
    expect(section).toContain(`data-path="${path}"`);
    expect(section.includes(' data-in="body"')).toBe(method === "POST");
    expect(section).toContain("<figure");
    for (const status of Object.keys(operation.responses ?? {})) expect(section).toContain(`>${status}</span></dt>`);
    for (const parameter of operation.parameters ?? []) {
      if (!("name" in parameter)) continue;
      const { name, in: place, schema = {} } = parameter;
      expect(section).toContain(`<code>${name}</code>`);
      expect(section).toContain(` name="${name}" data-in="${place}"`);
      if ("example" in schema) expect(section).toContain(`value="${schema.example}"`);
    }
  }
});

test("every kind of problem has a section", () => {
  for (const [name, { title }] of Object.entries(PROBLEMS)) {
    expect(page).toContain(`<section class="problem" id="problem-${name}"`);
    expect(page).toContain(`<a href="#problem-${name}">${title}</a></h3>`);
  }
});

test("the type of a problem links to its section", async () => {
  const responses = await Promise.all([
    api.get("/registry/v2/check/all"),
    api.get(`${CHECK}&chainId=5`),
    api.get(CHECK, { headers: { "X-API-KEY": "made up" } }),
    api.get("/registry/v3"),
    api.get(CHECK, { method: "POST" }),
    api.get(`${CHECK}&more=${"a".repeat(5000)}`),
    api.get(CHECK, { headers: { "X-Long": "a".repeat(10_000) } }),
  ]);
  expect(responses.map(({ status }) => status)).toEqual([400, 400, 401, 404, 405, 414, 431]);
  for (const response of responses) {
    const { type } = (await response.json()) as { type: string };
    const [path, id] = type.split("#");
    expect(path).toBe("/docs");
    expect(findValues("id")).toContain(id);
  }
});

test("every link and label within the page has exactly one target", () => {
  const ids = findValues("id");
  expect(new Set(ids).size).toBe(ids.length);
  const targets = [
    ...findValues("href").flatMap((href) => (href.startsWith("#") ? [href.slice(1)] : [])),
    ...["for", "aria-describedby", "aria-labelledby", "popovertarget"]
      .flatMap(findValues)
      .flatMap((id) => id.split(" ")),
  ];
  expect(targets.length).toBeGreaterThan(100);
  for (const id of targets) expect(ids).toContain(id);
});

test("the script shows answers as text, and parses no numbers", () => {
  expect(script).not.toMatch(/JSON\.|\.json\(|eval\(|innerHTML/);
});

test("renderReference() escapes every string of the document", () => {
  const evil = `"'><script>alert(1)</script>&`;
  const spoil = (value: unknown, key = ""): unknown => {
    if (typeof value === "string") return ["$ref", "in", "type"].includes(key) ? value : `${value}${evil}`;
    if (Array.isArray(value)) return value.map((item) => spoil(item, key));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, spoil(item, name)]));
  };
  const renameAll = (values: object = {}) =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [`${name}${evil}`, value]));

  const spoilt = spoil(document) as ServiceDescription;
  const rendered = renderReference({ ...spoilt, paths: renameAll(spoilt.paths) });
  expect(rendered).toContain("&#60;script&#62;alert(1)");
  expect(rendered).not.toContain("<script>");
  expect(rendered).not.toContain(`"'>`);
});
