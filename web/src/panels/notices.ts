// Messages: problems, what the page waits for, the connection, and the question for a token.

import { element } from "../base/dom";
import { followAll } from "../base/signal";
import { useToken } from "../rpc/connect";
import { connect, info, link } from "../state/connection";
import { busy, cancel, problem, resample } from "../state/session";

const KEY = "farpoint-token";

export function startNotices(): void {
  problem.follow((text) => {
    element("notice", "div").hidden = !text;
    element("notice-text", "p").textContent = text;
  });
  element("notice-close", "button").addEventListener("click", () => problem.set(""));
  element("cancel", "button").addEventListener("click", cancel);
  busy.follow((text) => {
    element("waiting", "div").hidden = !text;
    element("busy", "p").textContent = text;
  });
  followAll([link, info], showLink);
  startToken();
}

function showLink(): void {
  const place = element("link", "p");
  const devices = info.value?.devices.map(({ name, description }) => `${name} · ${description}`);
  place.dataset.state = link.value;
  place.title = info.value
    ? `farpoint-server ${info.value.version}, torch ${info.value.torchVersion}`
    : "";
  place.textContent = {
    connecting: "Connecting …",
    online: devices?.join(", ") || "Connected",
    offline: "The server does not answer",
    locked: "The server requires a token",
  }[link.value];
}

function startToken(): void {
  const form = element("token-form", "form");
  const field = element("token", "input");
  useToken(sessionStorage.getItem(KEY) ?? "");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, field.value.trim());
    useToken(field.value.trim());
    problem.set("");
    void connect().then(() => {
      if (link.value === "online") void resample();
    });
  });
  link.follow((state) => {
    form.hidden = state !== "locked";
    if (state === "locked") field.focus();
  });
}
