// The three views, as tabs of the keyboard too.

import { settings, type Tab } from "../state";
import { element } from "./dom";

const TABS: readonly Tab[] = ["sample", "encode", "server"];

export function startTabs(): void {
  const buttons = TABS.map((tab) => element(`tab-${tab}`, "button"));
  buttons.forEach((button, i) => {
    button.addEventListener("click", () => settings.tab.set(TABS[i]!));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next =
        event.key === "Home"
          ? 0
          : event.key === "End"
            ? TABS.length - 1
            : step && (i + step + TABS.length) % TABS.length;
      if (next === undefined) return;
      event.preventDefault();
      settings.tab.set(TABS[next]!);
      buttons[next]!.focus();
    });
  });
  settings.tab.follow((tab) => {
    document.body.dataset.tab = tab;
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", String(TABS[i] === tab));
      button.tabIndex = TABS[i] === tab ? 0 : -1;
    });
    element("work", "section").hidden = tab === "server";
    element("server", "section").hidden = tab !== "server";
    if (tab !== "server") element("work", "section").setAttribute("aria-labelledby", `tab-${tab}`);
  });
}
