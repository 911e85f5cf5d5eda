// The system's theme, unless the user has chosen one. Runs before the page is painted.

type Theme = "light" | "dark";

const STORAGE_KEY = "theme";
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

const readStoredTheme = (): Theme | null => {
  try {
    const stored = localStorage.getItem(STORAGE_KEY);
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    // A browser may deny access to storage.
    return null;
  }
};

const readTheme = (): Theme => {
  const { theme } = root.dataset;
  if (theme === "light" || theme === "dark") return theme;
  return prefersDark.matches ? "dark" : "light";
};

const setTheme = (theme: Theme): void => {
  root.dataset.theme = theme;
  try {
    localStorage.setItem(STORAGE_KEY, theme);
  } catch {
    // Without storage the choice lasts until the page is left.
  }
};

const storedTheme = readStoredTheme();
if (storedTheme) root.dataset.theme = storedTheme;

document.addEventListener("DOMContentLoaded", () => {
  const toggle = document.querySelector(".theme-toggle");
  const updateToggle = () => toggle?.setAttribute("aria-pressed", String(readTheme() === "dark"));
  toggle?.addEventListener("click", () => {
    setTheme(readTheme() === "dark" ? "light" : "dark");
    updateToggle();
  });
  prefersDark.addEventListener("change", updateToggle);
  updateToggle();
});
