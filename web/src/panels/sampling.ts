// The controls of the sample: method, its number or length, and a method to compare with.

import { bindSelect, element } from "../base/dom";
import { count, plural } from "../base/format";
import { followAll, Signal } from "../base/signal";
import { resample, right, scene, settings, wantSamples } from "../state/session";

const STEPS = 1000;

export function startSampling(): void {
  const { method, compare, radius, voxel } = settings;
  startMethods();
  startCount();
  startLength("radius", radius);
  startLength("voxel", voxel);
  for (const signal of [method, compare, radius, voxel]) signal.onChange(() => void resample());
}

function startMethods(): void {
  const { method, compare } = settings;
  bindSelect("method", method);
  const second = bindSelect("compare", compare);
  followAll([method, compare], () => {
    if (compare.value === method.value) compare.set("none");
    for (const option of second.options) option.disabled = option.value === method.value;
    for (const field of document.querySelectorAll<HTMLElement>("[data-for]")) {
      const uses = field.dataset.for!.split(" ");
      field.hidden = !uses.some((name) => name === method.value || name === compare.value);
    }
  });
}

function startLength(id: string, signal: Signal<number>): void {
  const input = element(id, "input");
  input.addEventListener("change", () => {
    const length = Number(input.value);
    if (length > 0) signal.set(length);
    input.value = String(signal.value);
  });
  signal.follow((value) => (input.value = String(value)));
}

function startCount(): void {
  const slider = element("m", "input");
  const number = element("m-number", "input");
  slider.addEventListener("input", () => setSamples(fromSlider(Number(slider.value))));
  number.addEventListener("change", () => setSamples(Number(number.value)));
  followAll([settings.m, scene, right], () => showCount(slider, number));
}

/** Chooses the number of samples; the server is asked only for more than it gave. */
export function setSamples(m: number): void {
  if (!Number.isFinite(m)) return;
  settings.m.set(Math.max(1, Math.min(Math.round(m), largest())));
  wantSamples(settings.m.value);
}

function largest(): number {
  return scene.value?.finite ?? 1e5;
}

/** The slider is logarithmic; its last step is every point. */
function fromSlider(value: number): number {
  return Math.round(largest() ** (value / STEPS));
}

function showCount(slider: HTMLInputElement, number: HTMLInputElement): void {
  const limit = largest();
  const m = Math.min(settings.m.value, limit);
  if (fromSlider(Number(slider.value)) !== m)
    slider.value = String(limit > 1 ? (STEPS * Math.log(m)) / Math.log(limit) : STEPS);
  number.value = String(m);
  number.max = String(limit);
  const share = (100 * m) / limit;
  const text = `${share >= 10 ? share.toFixed(0) : share.toPrecision(2)}\u00a0% of ${plural(limit, "point")}`;
  element("m-share", "p").textContent = scene.value ? text : "";
  slider.setAttribute("aria-valuetext", scene.value ? `${count(m)}, ${text}` : count(m));
}
