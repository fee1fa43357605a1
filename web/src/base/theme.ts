// Light or dark: the system's choice until the button is used.

import { element } from "./dom";
import { Signal } from "./signal";

const KEY = "farpoint-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const theme = new Signal<"light" | "dark">("light");

export function isDark(): boolean {
  return theme.value === "dark";
}

export function startTheme(): void {
  const button = element("theme", "button");
  const update = (): void => {
    const chosen = localStorage.getItem(KEY);
    if (chosen) document.documentElement.dataset.theme = chosen;
    theme.set(chosen === "dark" || (!chosen && system.matches) ? "dark" : "light");
  };
  system.addEventListener("change", update);
  button.addEventListener("click", () => {
    localStorage.setItem(KEY, isDark() ? "light" : "dark");
    update();
  });
  theme.follow((now) => {
    button.textContent = now === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${now === "dark" ? "light" : "dark"} theme`);
  });
  update();
}
