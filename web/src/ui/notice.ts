// What went wrong, who the server is, and the token it wants.

import { connect, info, link } from "../connection";
import { useToken } from "../rpc/connect";
import { problem, resample, scene } from "../session";
import { element } from "./dom";

const KEY = "farpoint-token";

export function startNotices(): void {
  problem.follow((text) => {
    element("notice", "div").hidden = !text;
    element("notice-text", "p").textContent = text;
  });
  element("notice-close", "button").addEventListener("click", () => problem.set(""));
  const show = (): void => showLink();
  link.onChange(show);
  info.onChange(show);
  show();
  startToken();
}

function showLink(): void {
  const place = element("link", "p");
  place.dataset.state = link.value;
  const device = info.value?.devices
    .map(({ name, description }) => `${name} · ${description}`)
    .join(", ");
  place.textContent = {
    connecting: "Connecting …",
    online: device ?? "Connected",
    offline: "The server does not answer",
    locked: "The server wants a token",
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
      if (link.value === "online" && scene.value) void resample();
    });
  });
  link.follow((state) => {
    form.hidden = state !== "locked";
    if (state === "locked") field.focus();
  });
}
