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
 * @throws CallError; DOMException AbortError once `signal` is aborted.
 */
export async function call<I extends DescMessage, O extends DescMessage>(
  method: Method<I, O>,
  request: MessageInitShape<I>,
  signal: AbortSignal,
): Promise<MessageShape<O>> {
  const body = toBinary(method.input, create(method.input, request)) as Uint8Array<ArrayBuffer>;
  const path = `${method.parent.typeName}/${method.name}`;
  const { status, answer } = await post(path, body, signal);
  if (status !== 200) throw failure(status, answer);
  return fromBinary(method.output, answer);
}

async function post(
  path: string,
  body: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
): Promise<{ status: number; answer: Uint8Array }> {
  const headers = new Headers({
    "content-type": "application/proto",
    "connect-protocol-version": "1",
  });
  if (token) headers.set("authorization", `Bearer ${token}`);
  try {
    const response = await fetch(path, { method: "POST", body, headers, signal });
    return { status: response.status, answer: new Uint8Array(await response.arrayBuffer()) };
  } catch {
    signal.throwIfAborted();
    const lost = "The server does not answer. The page continues once it is back.";
    throw new CallError("unreachable", lost);
  }
}

function failure(status: number, answer: Uint8Array): CallError {
  try {
    const { code, message } = JSON.parse(new TextDecoder().decode(answer)) as {
      code?: string;
      message?: string;
    };
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
