// Elements of the page, by id, and new ones.

/** @throws Error the page has no such element, or it is of another kind. */
export function element<K extends keyof HTMLElementTagNameMap>(
  id: string,
  tag: K,
): HTMLElementTagNameMap[K] {
  const found = document.getElementById(id);
  if (found?.tagName.toLowerCase() !== tag) throw new Error(`The page has no <${tag} id="${id}">.`);
  return found as HTMLElementTagNameMap[K];
}

type Child = Node | string;

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function makeSvg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** The chosen one of a group of radio buttons, followed both ways. */
export function bindRadios(
  name: string,
  read: () => string,
  write: (value: string) => void,
): () => void {
  const radios = [...document.querySelectorAll<HTMLInputElement>(`input[name="${name}"]`)];
  for (const radio of radios)
    radio.addEventListener("change", () => radio.checked && write(radio.value));
  const show = (): void => {
    for (const radio of radios) radio.checked = radio.value === read();
  };
  show();
  return show;
}
