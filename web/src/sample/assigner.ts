// Nearest samples in the background: the newest question is answered, those before it are dropped.

import type { Nearest } from "./nearest";
import type { NearestAnswer, NearestQuestion } from "./nearest.worker";

export class Assigner {
  private readonly worker = new Worker(new URL("./nearest.worker.ts", import.meta.url), {
    type: "module",
  });
  private running = 0;
  private asked = 0;
  private waiting: { question: NearestQuestion; answer: (nearest: Nearest) => void } | undefined;
  private answer: ((nearest: Nearest) => void) | undefined;

  constructor() {
    this.worker.onmessage = ({ data }: MessageEvent<NearestAnswer>) => {
      this.running = 0;
      // Dropped questions are never answered; whoever asked has asked again.
      if (data.id === this.asked) this.answer?.(data);
      const next = this.waiting;
      this.waiting = undefined;
      if (next) this.send(next.question, next.answer);
    };
  }

  ask(question: Omit<NearestQuestion, "id">, answer: (nearest: Nearest) => void): void {
    const numbered = { ...question, id: ++this.asked };
    if (this.running) this.waiting = { question: numbered, answer };
    else this.send(numbered, answer);
  }

  /** Nobody waits any more. */
  forget(): void {
    this.asked++;
    this.waiting = undefined;
  }

  private send(question: NearestQuestion, answer: (nearest: Nearest) => void): void {
    this.running = question.id;
    this.answer = answer;
    this.worker.postMessage(question);
  }
}
