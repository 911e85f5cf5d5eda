import type { Assets } from "./build.ts";
import { ASSETS_PATH, type PageName, type SitePage } from "./pages.ts";

const escapeHtml = (text: string) => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** Renders a page's HTML: the parts that all pages share, around its own content. Scripts then render into `main`. */
export const renderShell = (assets: Assets, pages: readonly SitePage[], name: PageName, content: string): string => {
  const page = pages.find((page) => page.name === name);
  if (!page) throw new Error(`This service has no page "${name}".`);
  const { script, style } = assets.pages[name];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="${escapeHtml(page.description)}">
<title>${escapeHtml(page.title)} · Delegation registry</title>
<link rel="icon" type="image/svg+xml" href="${ASSETS_PATH}/${assets.icon}">
<link rel="stylesheet" href="${ASSETS_PATH}/${style}">
<script src="${ASSETS_PATH}/${assets.theme}"></script>
<script type="module" src="${ASSETS_PATH}/${script}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="site">
<a class="site-name" href="/">${MARK}<span>Delegation registry</span></a>
<nav class="site-nav" aria-label="Pages">
<ul>
${pages
  .flatMap(({ path, links }) =>
    links.map(
      ({ label, href }) =>
        `<li><a href="${escapeHtml(href)}"${path === page.path && href === path ? ' aria-current="page"' : ""}>${escapeHtml(label)}</a></li>`,
    ),
  )
  .join("\n")}
</ul>
</nav>
<button type="button" class="theme-toggle" aria-pressed="false" aria-label="Dark theme" title="Dark theme">${SUN}${MOON}</button>
</header>
${content}
</body>
</html>
`;
};

/** Two overlapping wallets. */
const MARK =
  '<svg class="mark" viewBox="0 0 24 24" aria-hidden="true"><circle cx="9" cy="12" r="7"/><circle cx="16.5" cy="12" r="4.5"/></svg>';
const SUN =
  '<svg class="sun" viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="4.5"/><path d="M12 2.5v2m0 15v2m9.5-9.5h-2m-15 0h-2m16.2-6.7-1.4 1.4M6.7 17.3l-1.4 1.4m13.4 0-1.4-1.4M6.7 6.7 5.3 5.3"/></svg>';
const MOON =
  '<svg class="moon" viewBox="0 0 24 24" aria-hidden="true"><path d="M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z"/></svg>';
