// Unary calls of the Connect protocol: one POST of application/proto, errors as JSON.

import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";

export class CallError extends Error {
  constructor(
    /** As Connect spells it: "invalid_argument", "unavailable", ... */
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

interface Method<I extends DescMessage, O extends DescMessage> {
  readonly name: string;
  readonly input: I;
  readonly output: O;
  readonly parent: { readonly typeName: string };
}

let token = "";

/** Sets the bearer token of all later calls; empty for none. */
export function useToken(value: string): void {
  token = value;
}

/**
 * Calls a method of the server that the page came from.
 *
 * @param onSent called with the share of the request that is sent.
 * @throws CallError; DOMException AbortError once `signal` is aborted.
 */
export async function call<I extends DescMessage, O extends DescMessage>(
  method: Method<I, O>,
  request: MessageInitShape<I>,
  signal: AbortSignal,
  onSent?: (share: number) => void,
): Promise<MessageShape<O>> {
  const body = toBinary(method.input, create(method.input, request)) as Uint8Array<ArrayBuffer>;
  const path = `${method.parent.typeName}/${method.name}`;
  const { status, response } = await post(path, body, signal, onSent);
  if (status !== 200) throw failure(status, response);
  return fromBinary(method.output, new Uint8Array(response));
}

/** By XMLHttpRequest, since fetch does not tell how much it has sent. */
function post(
  path: string,
  body: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
  onSent?: (share: number) => void,
): Promise<{ status: number; response: ArrayBuffer }> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.responseType = "arraybuffer";
    request.setRequestHeader("content-type", "application/proto");
    request.setRequestHeader("connect-protocol-version", "1");
    if (token) request.setRequestHeader("authorization", `Bearer ${token}`);
    if (onSent) request.upload.onprogress = (event) => onSent(event.loaded / event.total);
    request.onload = () => resolve(request);
    const lost = "The server does not answer. The page continues once it is back.";
    request.onerror = () => reject(new CallError("unreachable", lost));
    signal.addEventListener("abort", () => {
      request.abort();
      reject(signal.reason);
    });
    request.send(body);
  });
}

function failure(status: number, response: ArrayBuffer): CallError {
  try {
    const text = new TextDecoder().decode(response);
    const { code, message } = JSON.parse(text) as { code?: string; message?: string };
    if (code) return new CallError(code, sentence(message || code.replaceAll("_", " ")));
  } catch {
    // A proxy's own page, not an answer of the server.
  }
  return status === 413
    ? new CallError("resource_exhausted", "The cloud is larger than this server accepts.")
    : new CallError("unknown", `The server answered with HTTP status ${status}.`);
}

function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
