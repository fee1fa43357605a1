// Whether the server answers, and who it is.

import { CallError } from "./rpc/connect";
import { serverInfo } from "./rpc/sampling";
import type { GetServerInfoResponse } from "./gen/farpoint/v1/sampling_pb";
import { Signal } from "./ui/signal";

export type Link = "connecting" | "online" | "offline" | "locked";

export const link = new Signal<Link>("connecting");
export const info = new Signal<GetServerInfoResponse | undefined>(undefined);

const AGAIN_MS = 700;
let timer = 0;

/** Asks who the server is, and asks again until it answers. */
export async function connect(): Promise<void> {
  clearTimeout(timer);
  try {
    info.set(await serverInfo(AbortSignal.timeout(10_000)));
    link.set("online");
  } catch (error) {
    if (
      error instanceof CallError &&
      (error.code === "unauthenticated" || error.code === "permission_denied")
    ) {
      link.set("locked");
      return;
    }
    link.set("offline");
    timer = window.setTimeout(() => void connect(), AGAIN_MS);
  }
}

/** To be told what a call failed with: the header shows it, and the page asks until it is over. */
export function noticeFailure(error: unknown): void {
  if (!(error instanceof CallError)) return;
  if (error.code === "unreachable" || error.code === "unavailable") {
    link.set("offline");
    clearTimeout(timer);
    timer = window.setTimeout(() => void connect(), AGAIN_MS);
  }
  if (error.code === "unauthenticated") link.set("locked");
}
