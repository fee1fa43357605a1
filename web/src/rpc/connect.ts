// Unary calls of the Connect protocol: one POST of application/proto, errors as JSON.

import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type MessageShape,
  type MessageInitShape,
} from "@bufbuild/protobuf";

/** A call that failed; the message is for people. */
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

/** The bearer token of all later calls; empty for none. */
export function useToken(value: string): void {
  token = value;
}

export function authorization(): Record<string, string> {
  return token ? { authorization: `Bearer ${token}` } : {};
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
  const answer = await send(`${method.parent.typeName}/${method.name}`, body, signal);
  if (!answer.ok) throw await failure(answer);
  return fromBinary(method.output, new Uint8Array(await read(answer)));
}

async function send(
  path: string,
  body: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
): Promise<Response> {
  try {
    return await fetch(path, {
      method: "POST",
      headers: {
        "content-type": "application/proto",
        "connect-protocol-version": "1",
        ...authorization(),
      },
      body,
      signal,
    });
  } catch (error) {
    throw lost(error);
  }
}

async function read(answer: Response): Promise<ArrayBuffer> {
  try {
    return await answer.arrayBuffer();
  } catch (error) {
    throw lost(error);
  }
}

function lost(error: unknown): unknown {
  if (error instanceof DOMException && error.name === "AbortError") return error;
  return new CallError(
    "unreachable",
    "The server does not answer. What is shown stays; the page goes on once it is back.",
  );
}

async function failure(answer: Response): Promise<CallError> {
  try {
    const { code, message } = (await answer.json()) as { code?: string; message?: string };
    if (code) return new CallError(code, sentence(message || code.replaceAll("_", " ")));
  } catch {
    // A proxy's own page, not an answer of the server.
  }
  if (answer.status === 413)
    return new CallError(
      "resource_exhausted",
      "The cloud is larger than this server takes in a call.",
    );
  return new CallError("unknown", `The server answered with HTTP status ${answer.status}.`);
}

function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
