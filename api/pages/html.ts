/** Escaped HTML. `html` escapes all other values. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export type HtmlValue = Html | string | number | false | undefined | readonly HtmlValue[];

export const html = (parts: TemplateStringsArray, ...values: HtmlValue[]): Html =>
  new Html(String.raw({ raw: parts }, ...values.map(toHtml)));

const toHtml = (value: HtmlValue): string => {
  if (value instanceof Html) return value.text;
  if (typeof value === "object") return value.map(toHtml).join("");
  return value === undefined || value === false ? "" : String(value).replaceAll(/[&<>"']/g, escapeCharacter);
};

const escapeCharacter = (character: string) => `&#${character.charCodeAt(0)};`;

/** Renders the Markdown of descriptions: paragraphs and `code`. */
export const renderParagraphs = (text: string) =>
  text.split(/\n{2,}/).map((paragraph) => html`<p>${renderInline(paragraph)}</p>`);

/** Renders Markdown without paragraphs. */
export const renderInline = (text: string) =>
  html`${text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`;
