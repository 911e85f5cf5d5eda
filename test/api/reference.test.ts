import { expect } from "vitest";
import type { ServiceDescription } from "../../api/openapi.ts";
import { renderReference } from "../../api/pages/render-reference.ts";
import { PROBLEMS } from "../../api/problem.ts";
import { CHECK } from "../support/api.ts";
import { test as base } from "../support/test.ts";

const test = base
  .extend("document", async ({ samples }) => (await (await samples.get("/openapi.json")).json()) as ServiceDescription)
  .extend("page", async ({ samples }) => (await samples.get("/docs")).text());

/** Finds all values of an attribute in the page. */
const findValues = (page: string, attribute: string) =>
  [...page.matchAll(new RegExp(` ${attribute}="([^"]*)"`, "g"))].map(([, value = ""]) => value);

/** Finds the URLs that the page loads, not those of its links. */
const findLoadedUrls = (page: string) =>
  [...page.matchAll(/<(?!a\b)\w+[^>]*? (?:src|srcset|href|data|poster)="([^"]*)"/g)].map(([, url = ""]) => url);

const listOperations = (document: ServiceDescription) =>
  Object.entries(document.paths ?? {}).flatMap(([path, { get, post }]) => {
    const operation = get ?? post;
    return operation ? [{ path, operation, method: get ? "GET" : "POST" }] : [];
  });

/** Finds the section of an operation. */
const findSection = (page: string, id: string) => {
  const start = page.indexOf(`<article class="operation" id="${id}"`);
  return start === -1 ? "" : page.slice(start, page.indexOf("</article>", start));
};

test("the page loads only its own assets, and its script shows answers as text and parses no numbers", async ({
  samples,
  page,
}) => {
  const urls = findLoadedUrls(page);
  expect(urls).toHaveLength(4);
  for (const url of urls) expect(url).toMatch(/^\/assets\/[\w.-]+$/);
  const load = async (name: RegExp) => (await samples.get(urls.find((url) => name.test(url)) ?? "")).text();
  expect(await load(/\.css$/)).not.toMatch(/url\(|@import/);
  const script = await load(/reference-\w+\.js$/);
  expect(script).not.toMatch(/https?:|["'`]\/\/|\bimport\b/);
  expect(script).not.toMatch(/JSON\.|\.json\(|eval\(|innerHTML/);
});

test("every operation has a section with parameters, responses, an example and a filled-in form", ({
  document,
  page,
}) => {
  const operations = listOperations(document);
  expect(operations.length).toBeGreaterThan(10);
  for (const { path, operation, method } of operations) {
    const section = findSection(page, operation.operationId ?? "");
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

test("every kind of problem has a section", ({ page }) => {
  for (const [name, { title }] of Object.entries(PROBLEMS)) {
    expect(page).toContain(`<section class="problem" id="problem-${name}"`);
    expect(page).toContain(`<a href="#problem-${name}">${title}</a></h3>`);
  }
});

test("the type of a problem links to its section", async ({ samples, page }) => {
  const responses = await Promise.all([
    samples.get("/registry/v2/check/all"),
    samples.get(`${CHECK}&chainId=5`),
    samples.get(CHECK, { headers: { "X-API-KEY": "made up" } }),
    samples.get("/registry/v3"),
    samples.get(CHECK, { method: "POST" }),
    samples.get(`${CHECK}&more=${"a".repeat(5000)}`),
    samples.get(CHECK, { headers: { "X-Long": "a".repeat(10_000) } }),
  ]);
  expect(responses.map(({ status }) => status)).toEqual([400, 400, 401, 404, 405, 414, 431]);
  for (const response of responses) {
    const { type } = (await response.json()) as { type: string };
    const [path, id] = type.split("#");
    expect(path).toBe("/docs");
    expect(findValues(page, "id")).toContain(id);
  }
});

test("every link and label within the page has exactly one target", ({ page }) => {
  const ids = findValues(page, "id");
  expect(new Set(ids).size).toBe(ids.length);
  const targets = [
    ...findValues(page, "href").flatMap((href) => (href.startsWith("#") ? [href.slice(1)] : [])),
    ...["for", "aria-describedby", "aria-labelledby", "popovertarget"]
      .flatMap((attribute) => findValues(page, attribute))
      .flatMap((id) => id.split(" ")),
  ];
  expect(targets.length).toBeGreaterThan(100);
  for (const id of targets) expect(ids).toContain(id);
});

test("renderReference() escapes every string of the document", async ({ document }) => {
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
  const rendered = await renderReference({ ...spoilt, paths: renameAll(spoilt.paths) });
  expect(rendered).toContain("&lt;script&gt;alert(1)");
  expect(rendered).not.toContain("<script>");
  expect(rendered).not.toContain(`"'>`);
});
