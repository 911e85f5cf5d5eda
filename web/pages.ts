/** A page for people: a folder of its name beside this file, with main.tsx, which imports its style. */
export type Page = {
  name: string;
  path: string;
  title: string;
  /** For search engines and previews of links. */
  description: string;
  /** Where it stands in the navigation that all pages have. */
  links: readonly { label: string; href: string }[];
};

/** Every page, in the order of the navigation. README.md says what adding one takes. */
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
    name: "insights",
    path: "/insights",
    title: "Insights",
    description:
      "How the delegation registries are used: what is delegated and revoked, on which networks, for which contracts.",
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
    description: "Sign in with a wallet, and make API keys that lift the rate limit.",
    links: [{ label: "Keys", href: "/developers" }],
  },
] as const satisfies readonly Page[];

export type PageOf = (typeof PAGES)[number];
export type PageName = PageOf["name"];
