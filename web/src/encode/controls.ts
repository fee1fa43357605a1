// The controls of the encoder: model, run, stage.

import { info } from "../connection";
import type { Model } from "../gen/farpoint/v1/sampling_pb";
import { listModels } from "../rpc/sampling";
import { busy, cancel, encoded, runEncoder, scene } from "../session";
import { settings } from "../state";
import { bindRadios, element, make } from "../ui/dom";
import { count, measure, plural } from "../ui/format";
import { Signal } from "../ui/signal";

export const models = new Signal<readonly Model[]>([]);

export function startEncodeControls(): void {
  element("run", "button").addEventListener("click", () => void runEncoder());
  element("cancel", "button").addEventListener("click", cancel);
  const model = element("model", "select");
  model.addEventListener("change", () => settings.model.set(model.value));
  const features = bindRadios(
    "features",
    () => settings.features.value,
    (value) => settings.features.set(value as "features"),
  );
  settings.features.onChange(features);
  info.onChange(() => void refreshModels());
  models.follow(showModels);
  for (const signal of [busy, scene, models, settings.model]) signal.onChange(showState);
  encoded.follow(showStages);
  settings.stage.onChange(showStages);
  showState();
}

async function refreshModels(): Promise<void> {
  try {
    models.set(await listModels(AbortSignal.timeout(10_000)));
  } catch {
    // The header says that the server is away; it is asked again when it is back.
  }
}

function showModels(list: readonly Model[]): void {
  const select = element("model", "select");
  select.replaceChildren(...list.map((model) => make("option", { value: model.name }, model.name)));
  if (list.some((model) => model.name === settings.model.value))
    select.value = settings.model.value;
  element("model-field", "div").hidden = list.length < 2;
}

function chosenModel(): Model | undefined {
  return models.value.find((model) => model.name === settings.model.value) ?? models.value[0];
}

function showState(): void {
  const model = chosenModel();
  const encoding = busy.value.startsWith("Encoding");
  const run = element("run", "button");
  run.disabled = !model || !scene.value || encoding || model.attributeChannels > 0n;
  element("cancel", "button").hidden = !encoding;
  element("encode-hint", "p").textContent = !model
    ? "This server has no model loaded."
    : model.attributeChannels > 0n
      ? `${model.name} wants ${plural(Number(model.attributeChannels), "value")} with each point, which this page does not send.`
      : `${model.name}: ${plural(model.rates.length, "stage")}, ${plural(Number(model.featureChannels), "feature")} per point. On a CPU a cloud of 100,000 points takes some seconds.`;
}

function showStages(): void {
  const stages = encoded.value?.stages ?? [];
  element("stage-field", "fieldset").hidden = !stages.length;
  const at = Math.min(settings.stage.value, stages.length - 1);
  const host = element("stages", "div");
  if (host.childElementCount !== stages.length) {
    host.replaceChildren(
      ...stages.map((_, i) => {
        const radio = make("input", { type: "radio", name: "stage", value: String(i) });
        radio.addEventListener("change", () => settings.stage.set(i));
        return make("label", {}, radio, make("span", {}));
      }),
    );
  }
  stages.forEach((stage, i) => {
    const label = host.children[i] as HTMLElement;
    (label.firstChild as HTMLInputElement).checked = i === at;
    const each = stage.counts.reduce((sum, value) => sum + value, 0) / stage.counts.length;
    const text = label.lastChild as HTMLElement;
    text.replaceChildren(
      make("b", {}, `${i + 1}`),
      make("span", {}, `${count(stage.indices.length)} kept`),
      make("span", {}, `${measure(each)} points each`),
    );
  });
}
