// The controls of the sample: how many, from where, what to do with rows without a place.

import { most, resample, sampled, scene, wantSamples } from "../session";
import { settings } from "../state";
import { bindRadios, element } from "../ui/dom";
import { count, plural } from "../ui/format";

const STEPS = 1000;

export function startSampleControls(): void {
  const slider = element("m", "input");
  const number = element("m-number", "input");
  slider.addEventListener("input", () => setSamples(fromSlider(Number(slider.value))));
  number.addEventListener("change", () => setSamples(Number(number.value)));
  const show = (): void => showSamples(slider, number);
  for (const signal of [settings.m, scene, sampled, settings.nonfinite]) signal.onChange(show);
  show();
  startStart();
  startNonfinite();
}

/** Chooses the number of samples; the server is asked only for more than it gave. */
export function setSamples(m: number): void {
  const limit = scene.value ? most(scene.value) : Infinity;
  if (!Number.isFinite(m)) return;
  settings.m.set(Math.max(1, Math.min(Math.round(m), limit)));
  wantSamples(settings.m.value);
}

/** The slider is logarithmic; its last step is every point. */
function fromSlider(value: number): number {
  const limit = scene.value ? most(scene.value) : 1e5;
  return Math.round(limit ** (value / STEPS));
}

function showSamples(slider: HTMLInputElement, number: HTMLInputElement): void {
  const limit = scene.value ? most(scene.value) : 1e5;
  const m = Math.min(settings.m.value, limit);
  if (fromSlider(Number(slider.value)) !== m)
    slider.value = String(limit > 1 ? (STEPS * Math.log(m)) / Math.log(limit) : STEPS);
  if (document.activeElement !== number || Number(number.value) !== m) number.value = String(m);
  number.max = String(limit);
  const share = (100 * m) / limit;
  const text = `${share >= 10 ? share.toFixed(0) : share.toPrecision(2)} % of ${plural(limit, "point")}`;
  element("m-share", "p").textContent = scene.value
    ? text
    : "A sample is a prefix: one call serves every number.";
  slider.setAttribute("aria-valuetext", scene.value ? `${count(m)}, ${text}` : count(m));
}

function startStart(): void {
  const start = element("start", "input");
  start.addEventListener("change", () => {
    const last = (scene.value?.cloud.count ?? Infinity) - 1;
    settings.start.set(Math.max(0, Math.min(Math.trunc(Number(start.value)) || 0, last)));
    start.value = String(settings.start.value);
  });
  settings.start.follow((row) => (start.value = String(row)));
  scene.follow((current) => (start.max = String((current?.cloud.count ?? 1) - 1)));
  // Another start is another sample; a cloud that is being opened asks by itself.
  settings.start.onChange(() => void resample());
}

function startNonfinite(): void {
  const show = bindRadios(
    "nonfinite",
    () => settings.nonfinite.value,
    (value) => settings.nonfinite.set(value === "reject" ? "reject" : "ignore"),
  );
  settings.nonfinite.onChange(() => {
    show();
    const current = scene.value;
    if (current && current.finite < current.cloud.count) void resample();
  });
  scene.follow((current) => {
    const missing = current ? current.cloud.count - current.finite : 0;
    element("nonfinite-hint", "p").textContent = !current
      ? ""
      : missing
        ? `This cloud has ${count(missing)} of them.`
        : "This cloud has none.";
  });
}
