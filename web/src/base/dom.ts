// Elements of the page: found by id, made new, and bound to signals.

import type { Signal } from "./signal";

/** @throws Error the page has no such element, or it is of another kind. */
export function element<K extends keyof HTMLElementTagNameMap>(
  id: string,
  tag: K,
): HTMLElementTagNameMap[K] {
  const found = document.getElementById(id);
  if (found?.tagName.toLowerCase() !== tag) throw new Error(`The page has no <${tag} id="${id}">.`);
  return found as HTMLElementTagNameMap[K];
}

export function makeSvg(
  tag: string,
  attributes: Record<string, string | number>,
  text = "",
): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.textContent = text;
  return made;
}

/** Binds a list of choices to a signal, in both directions. */
export function bindSelect<T extends string>(id: string, signal: Signal<T>): HTMLSelectElement {
  const select = element(id, "select");
  select.addEventListener("change", () => signal.set(select.value as T));
  signal.follow((value) => (select.value = value));
  return select;
}
