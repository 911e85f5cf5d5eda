// Light or dark: as the system has it, unless somebody has chosen here. Runs before the page is painted.

type Theme = "light" | "dark";

const KEY = "theme";
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

const chosen = (): Theme | null => {
  try {
    const stored = localStorage.getItem(KEY);
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    // A browser may keep its storage to itself.
    return null;
  }
};

const current = (): Theme => {
  const { theme } = root.dataset;
  if (theme === "light" || theme === "dark") return theme;
  return prefersDark.matches ? "dark" : "light";
};

const choose = (theme: Theme): void => {
  root.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Then it holds for this page alone.
  }
};

const stored = chosen();
if (stored) root.dataset.theme = stored;

document.addEventListener("DOMContentLoaded", () => {
  const toggle = document.querySelector(".theme-toggle");
  const show = () => toggle?.setAttribute("aria-pressed", String(current() === "dark"));
  toggle?.addEventListener("click", () => {
    choose(current() === "dark" ? "light" : "dark");
    show();
  });
  prefersDark.addEventListener("change", show);
  show();
});
