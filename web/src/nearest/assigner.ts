// Nearest samples in the background: only the newest question is answered.

import type { Answer, Nearest, Question } from "./nearest.worker";

type Callback = (nearest: Nearest) => void;

export class Assigner {
  private readonly worker = new Worker(new URL("./nearest.worker.ts", import.meta.url), {
    type: "module",
  });
  private isRunning = false;
  private newest = 0;
  private waiting: Question | undefined;
  private callback: Callback = () => undefined;

  constructor() {
    this.worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      this.isRunning = false;
      if (data.id === this.newest) this.callback(data);
      if (this.waiting) this.send(this.waiting);
    };
  }

  ask(question: Omit<Question, "id">, callback: Callback): void {
    this.callback = callback;
    this.waiting = { ...question, id: ++this.newest };
    if (!this.isRunning) this.send(this.waiting);
  }

  private send(question: Question): void {
    this.waiting = undefined;
    this.isRunning = true;
    this.worker.postMessage(question);
  }
}
