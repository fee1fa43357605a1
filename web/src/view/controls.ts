// Mouse, touch and keyboard on the pictures.

import type { Viewer } from "./viewer";

/** Pixels that a press may wander and still be a click. */
const CLICK = 4;

export function attachControls(
  canvas: HTMLCanvasElement,
  viewer: Viewer,
  onPick: (x: number, y: number) => void,
): void {
  attachPointers(canvas, viewer, onPick);
  attachKeys(canvas, viewer);
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("dblclick", () => {
    viewer.orbit.reset();
    viewer.move();
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      viewer.orbit.zoom(Math.exp(Math.max(-80, Math.min(80, event.deltaY)) * 0.003));
      viewer.move();
    },
    { passive: false },
  );
}

function attachPointers(
  canvas: HTMLCanvasElement,
  viewer: Viewer,
  onPick: (x: number, y: number) => void,
): void {
  const held = new Map<number, { x: number; y: number }>();
  let wandered = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    if (held.size === 1) wandered = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [event.offsetX - before.x, event.offsetY - before.y];
    wandered += Math.abs(dx) + Math.abs(dy);
    const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
    if (other) pinch(canvas, viewer, before, event, other);
    else if (event.shiftKey || event.buttons & 6)
      viewer.orbit.pan(dx / canvas.clientHeight, -dy / canvas.clientHeight);
    else viewer.orbit.turn(dx * 0.006, dy * 0.006);
    held.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    viewer.move();
  });
  const release = (event: PointerEvent): void => {
    const was = held.delete(event.pointerId);
    if (was && event.type === "pointerup" && wandered <= CLICK && event.button === 0)
      onPick(event.offsetX, event.offsetY);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
}

interface Place {
  readonly x: number;
  readonly y: number;
}

function pinch(
  canvas: HTMLCanvasElement,
  viewer: Viewer,
  before: Place,
  now: PointerEvent,
  other: Place,
): void {
  const apart = (place: Place): number =>
    Math.max(10, Math.hypot(place.x - other.x, place.y - other.y));
  viewer.orbit.zoom(apart(before) / apart({ x: now.offsetX, y: now.offsetY }));
  // Half of the way, since the other finger goes the other half.
  viewer.orbit.pan(
    (now.offsetX - before.x) / 2 / canvas.clientHeight,
    -(now.offsetY - before.y) / 2 / canvas.clientHeight,
  );
}

function attachKeys(canvas: HTMLCanvasElement, viewer: Viewer): void {
  const { orbit } = viewer;
  const turns: Record<string, [number, number]> = {
    ArrowLeft: [1, 0],
    ArrowRight: [-1, 0],
    ArrowUp: [0, 1],
    ArrowDown: [0, -1],
  };
  canvas.addEventListener("keydown", (event) => {
    const step = turns[event.key];
    if (step && event.shiftKey) orbit.pan(step[0] * 0.05, -step[1] * 0.05);
    else if (step) orbit.turn(-step[0] * 0.08, step[1] * 0.08);
    else if (event.key === "+" || event.key === "=") orbit.zoom(0.88);
    else if (event.key === "-") orbit.zoom(1 / 0.88);
    else if (event.key === "Home" || event.key === "0") orbit.reset();
    else return;
    event.preventDefault();
    viewer.move();
  });
}
