// The tab of the server: what it does now, how long calls take, memory, what it is.

import { info } from "../connection";
import { models } from "../encode/controls";
import { settings } from "../state";
import { element, make } from "../ui/dom";
import { bytes, count, measure, milliseconds, plural } from "../ui/format";
import { history, reachable, watch } from "./history";
import { quantile, type Reading } from "./metrics";
import { MemoryPlot, QueuePlot, RatePlot } from "./plots";

/** Seconds that rates and latencies look back. */
const WINDOW_S = 60;

export function startServerTab(): void {
  const host = element("server", "section");
  const now = make("div", { class: "tiles" });
  const plots = make("div", { class: "plots" });
  const calls = make("div", { class: "card" });
  const refused = make("div", { class: "card" });
  const about = make("div", { class: "card" });
  const away = make(
    "p",
    { class: "away", hidden: "" },
    "The server does not answer; these are the last values.",
  );
  host.append(away, now, plots, make("div", { class: "cards" }, calls, refused, about));
  const drawn = [new RatePlot(plots), new QueuePlot(plots), new MemoryPlot(plots)];
  settings.tab.follow((tab) => watch(tab === "server"));
  reachable.follow((yes) => (away.hidden = yes));
  const showAll = (): void => {
    const last = history.value.at(-1);
    showAbout(about, last);
    if (!last) return;
    const before = history.value.find(({ at }) => at >= last.at - WINDOW_S) ?? last;
    showNow(now, before, last);
    showCalls(calls, before, last);
    showRefused(refused, last);
    for (const plot of drawn) plot.show();
  };
  for (const signal of [history, info, models]) signal.onChange(showAll);
  showAll();
}

function tile(title: string, value: string, hint: string): HTMLElement {
  return make(
    "div",
    { class: "tile" },
    make("h2", {}, title),
    make("p", { class: "big" }, value),
    make("p", { class: "hint" }, hint),
  );
}

function showNow(host: HTMLElement, before: Reading, now: Reading): void {
  const seconds = Math.max(now.at - before.at, 1);
  const grown = (name: string): number => now.sum(name) - before.sum(name);
  const batches = grown("farpoint_batch_requests_count");
  const perBatch = batches ? grown("farpoint_batch_requests_sum") / batches : NaN;
  const pointsPerBatch = batches ? grown("farpoint_batch_points_sum") / batches : NaN;
  host.replaceChildren(
    tile(
      "In the queue",
      count(now.sum("farpoint_queue_requests")),
      `${plural(now.sum("farpoint_queue_points"), "point")} that no engine has begun`,
    ),
    tile(
      "In flight",
      count(now.sum("farpoint_calls")),
      `${bytes(now.sum("farpoint_bytes_in_flight"))} held for calls`,
    ),
    tile("Calls a second", measure(grown("farpoint_rpcs_total") / seconds), "over the last minute"),
    tile(
      "A batch",
      batches ? plural(perBatch, "request") : "–",
      batches ? `${count(pointsPerBatch)} points on average` : "none in the last minute",
    ),
    tile("Refused", count(now.sum("farpoint_refusals_total")), "since the server started"),
  );
}

function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  caption: string,
): HTMLElement {
  const cells = (tag: "th" | "td", row: readonly string[]): HTMLElement[] =>
    row.map((text) => make(tag, tag === "th" ? { scope: "col" } : {}, text));
  const body = rows.map((row) =>
    make("tr", {}, make("th", { scope: "row" }, row[0]!), ...cells("td", row.slice(1))),
  );
  return make(
    "table",
    {},
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...cells("th", head))),
    make("tbody", {}, ...body),
  );
}

function showCalls(host: HTMLElement, before: Reading, now: Reading): void {
  const names = [
    ...new Set(now.all("farpoint_rpcs_total").map(({ labels }) => labels.rpc!)),
  ].sort();
  const rows = names.map((rpc) => {
    const [from, to] = [
      before.buckets("farpoint_rpc_seconds", { rpc }),
      now.buckets("farpoint_rpc_seconds", { rpc }),
    ];
    // Without a call in the last minute, all that there were.
    const recent = Number.isFinite(quantile(from, to, 0.5)) ? from : new Map<number, number>();
    const at = (part: number): string => {
      const value = quantile(recent, to, part);
      return Number.isFinite(value) ? milliseconds(1000 * value) : "–";
    };
    const total = now.sum("farpoint_rpcs_total", { rpc });
    const failed = total - now.sum("farpoint_rpcs_total", { rpc, code: "OK" });
    return [rpc.split("/").at(-1)!, count(total), count(failed), at(0.5), at(0.95), at(0.99)];
  });
  host.replaceChildren(
    rows.length
      ? table(["Call", "Ended", "Not OK", "p50", "p95", "p99"], rows, "Latency")
      : empty("Latency", "No call yet."),
  );
}

function showRefused(host: HTMLElement, now: Reading): void {
  const rows = now
    .all("farpoint_refusals_total")
    .filter(({ value }) => value > 0)
    .map(({ labels, value }) => [labels.reason!.replaceAll("_", " "), count(value)]);
  host.replaceChildren(
    rows.length
      ? table(["Reason", "Requests"], rows, "Refused")
      : empty("Refused", "Nothing was refused."),
  );
}

function empty(title: string, text: string): HTMLElement {
  return make("div", {}, make("h2", {}, title), make("p", { class: "hint" }, text));
}

function showAbout(host: HTMLElement, now: Reading | undefined): void {
  const about = info.value;
  const facts: [string, string][] = [];
  if (about) {
    facts.push(["Version", `farpoint-server ${about.version}, torch ${about.torchVersion}`]);
    for (const device of about.devices) facts.push([device.name, device.description]);
    facts.push([
      "A call takes",
      `${count(Number(about.limits?.requestPoints ?? 0))} points, ${bytes(Number(about.limits?.messageBytes ?? 0))}`,
    ]);
  }
  if (now) {
    const up = Date.now() / 1000 - now.sum("process_start_time_seconds");
    facts.push([
      "Up for",
      up < 120 ? `${count(up)} s` : up < 7200 ? `${count(up / 60)} min` : `${count(up / 3600)} h`,
    ]);
    facts.push(["Resident", bytes(now.sum("farpoint_resident_bytes"))]);
    facts.push(["Health", now.sum("farpoint_serving") ? "serving" : "not serving"]);
  }
  for (const model of models.value) {
    facts.push([
      model.name,
      `${plural(model.rates.length, "stage")}, ${count(Number(model.featureChannels))} features, ${count(Number(model.parameterCount))} parameters`,
    ]);
  }
  host.replaceChildren(
    make("h2", {}, "Server and models"),
    make(
      "dl",
      { class: "about" },
      ...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    ),
  );
}
