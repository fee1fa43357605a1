// The state of the connection, and what the server is.

import { Signal } from "../base/signal";
import type { GetServerInfoResponse } from "../gen/farpoint/v1/sampling_pb";
import { CallError } from "../rpc/connect";
import { serverInfo } from "../rpc/sampling";

export type Link = "connecting" | "online" | "offline" | "locked";

export const link = new Signal<Link>("connecting");
export const info = new Signal<GetServerInfoResponse | undefined>(undefined);

const RETRY_MS = 700;
let timer = 0;

/** Asks what the server is, again and again until it answers. */
export async function connect(): Promise<void> {
  clearTimeout(timer);
  try {
    info.set(await serverInfo(AbortSignal.timeout(10_000)));
    link.set("online");
  } catch (error) {
    const code = error instanceof CallError ? error.code : "";
    if (code === "unauthenticated" || code === "permission_denied") return link.set("locked");
    retry();
  }
}

/** Shows a failed call in the header; connects again if the server is away. */
export function noticeFailure(error: unknown): void {
  if (!(error instanceof CallError)) return;
  if (error.code === "unreachable" || error.code === "unavailable") retry();
  if (error.code === "unauthenticated") link.set("locked");
}

function retry(): void {
  link.set("offline");
  clearTimeout(timer);
  timer = window.setTimeout(() => void connect(), RETRY_MS);
}
