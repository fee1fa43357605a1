// The controls of the sample: method, its numbers, and what to do with rows that are not finite.

import { bindRadios, element } from "../base/dom";
import { count, plural } from "../base/format";
import { followAll, Signal } from "../base/signal";
import type { Method } from "../rpc/sampling";
import { most, resample, sampled, scene, wantSamples } from "../state/session";
import { settings } from "../state/settings";

const STEPS = 1000;

export function startSampling(): void {
  startMethods();
  startCount();
  startNumber("start", settings.start, (row) =>
    Math.min(Math.trunc(row), (scene.value?.cloud.count ?? Infinity) - 1),
  );
  startNumber("seed", settings.seed, (seed) => Math.min(Math.trunc(seed), Number.MAX_SAFE_INTEGER));
  startNumber("radius", settings.radius, (radius) => radius || settings.radius.value);
  startNumber("voxel", settings.voxel, (size) => size || settings.voxel.value);
  startNonfinite();
  const { method, compare, start, seed, radius, voxel } = settings;
  for (const signal of [method, compare, start, seed, radius, voxel])
    signal.onChange(() => void resample());
}

function startMethods(): void {
  const { method, compare } = settings;
  const [first, second] = [element("method", "select"), element("compare", "select")];
  first.addEventListener("change", () => method.set(first.value as Method));
  second.addEventListener("change", () => compare.set(second.value as Method));
  followAll([method, compare], () => {
    if (compare.value === method.value) compare.set("none");
    [first.value, second.value] = [method.value, compare.value];
    for (const option of second.options) option.disabled = option.value === method.value;
    for (const field of document.querySelectorAll<HTMLElement>("[data-for]")) {
      const uses = field.dataset.for!.split(" ");
      field.hidden = !uses.some((name) => name === method.value || name === compare.value);
    }
  });
}

function startNumber(id: string, signal: Signal<number>, valid: (value: number) => number): void {
  const input = element(id, "input");
  input.addEventListener("change", () => {
    signal.set(Math.max(0, valid(Number(input.value) || 0)));
    input.value = String(signal.value);
  });
  signal.follow((value) => (input.value = String(value)));
}

function startCount(): void {
  const slider = element("m", "input");
  const number = element("m-number", "input");
  slider.addEventListener("input", () => setSamples(fromSlider(Number(slider.value))));
  number.addEventListener("change", () => setSamples(Number(number.value)));
  const { m, nonfinite } = settings;
  followAll([m, scene, sampled, nonfinite], () => showCount(slider, number));
}

/** Chooses the number of samples; the server is asked only for more than it gave. */
export function setSamples(m: number): void {
  if (!Number.isFinite(m)) return;
  settings.m.set(Math.max(1, Math.min(Math.round(m), largest())));
  wantSamples(settings.m.value);
}

function largest(): number {
  return scene.value ? most(scene.value) : 1e5;
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
  if (document.activeElement !== number || Number(number.value) !== m) number.value = String(m);
  number.max = String(limit);
  const share = (100 * m) / limit;
  const text = `${share >= 10 ? share.toFixed(0) : share.toPrecision(2)}\u00a0% of ${plural(limit, "point")}`;
  element("m-share", "p").textContent = scene.value ? text : "";
  slider.setAttribute("aria-valuetext", scene.value ? `${count(m)}, ${text}` : count(m));
}

function startNonfinite(): void {
  bindRadios("nonfinite", settings.nonfinite);
  const missing = (): number => (scene.value ? scene.value.cloud.count - scene.value.finite : 0);
  settings.nonfinite.onChange(() => missing() && void resample());
  scene.follow(() => {
    element("nonfinite-hint", "p").textContent = missing()
      ? `This cloud has ${count(missing())} of them.`
      : "This cloud has none.";
  });
}
