/** URL path of the built files. */
export const ASSETS_PATH = "/assets";

/** A page: a folder of its name beside this file, with a main.tsx that imports its style. */
type PageDefinition = {
  name: string;
  path: string;
  title: string;
  /** For search engines and link previews. */
  description: string;
  /** Its links in the navigation of all pages. */
  links: readonly { label: string; href: string }[];
};

/** Every page, in the order of the navigation. README.md explains how to add one. */
export const PAGES = [
  {
    name: "explorer",
    path: "/",
    title: "Delegation explorer",
    description: "Who may act for a wallet, and for whom it may act: the delegations of any wallet, on every network.",
    links: [
      { label: "Explorer", href: "/" },
      { label: "Check", href: "/?view=check" },
    ],
  },
  {
    name: "checks",
    path: "/checks",
    title: "Check a list",
    description: "Check a list of wallets against the delegation registries, and download it with the answers.",
    links: [{ label: "Check a list", href: "/checks" }],
  },
  {
    name: "insights",
    path: "/insights",
    title: "Insights",
    description: "How the delegation registries are used: delegations made and revoked, by network and by contract.",
    links: [{ label: "Insights", href: "/insights" }],
  },
  {
    name: "reference",
    path: "/docs",
    title: "API reference",
    description: "Every operation of the delegation registry's API, with a form to try it.",
    links: [{ label: "API reference", href: "/docs" }],
  },
  {
    name: "developers",
    path: "/developers",
    title: "API keys",
    description: "Sign in with a wallet and make API keys that lift the rate limit.",
    links: [{ label: "Keys", href: "/developers" }],
  },
] as const satisfies readonly PageDefinition[];

export type SitePage = (typeof PAGES)[number];
export type PageName = SitePage["name"];
