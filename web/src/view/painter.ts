// Draws points into panes of a canvas by WebGL.

import {
  ColorManagement,
  LinearSRGBColorSpace,
  Scene,
  WebGLRenderer,
  type Color,
  type PerspectiveCamera,
} from "three";
import type { PointSet } from "./points";

// Colors are drawn as they are given.
ColorManagement.enabled = false;

/** A rectangle of the canvas in CSS pixels, from its lower left corner. */
export interface Pane {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export class Painter {
  private readonly renderer: WebGLRenderer | undefined;
  private readonly scene = new Scene();
  private size = "";

  constructor(canvas: HTMLCanvasElement) {
    this.renderer = rendererOf(canvas);
  }

  /** Whether the browser has WebGL. */
  get canDraw(): boolean {
    return this.renderer !== undefined;
  }

  /** Sets the size in CSS pixels, and how many pixels of the canvas lie along one of them. */
  resize(width: number, height: number, ratio: number): void {
    const size = `${width} ${height} ${ratio}`;
    if (size === this.size) return;
    this.size = size;
    this.renderer?.setPixelRatio(ratio);
    this.renderer?.setSize(width, height, false);
  }

  /** Draws points over what is in the pane, unless it is cleared. */
  draw(
    background: Color,
    { x, y, width, height }: Pane,
    camera: PerspectiveCamera,
    points: readonly PointSet[],
    clear: boolean,
  ): void {
    const { renderer, scene } = this;
    if (!renderer) return;
    renderer.setViewport(x, y, width, height);
    renderer.setScissor(x, y, width, height);
    renderer.setClearColor(background, 1);
    renderer.clear(clear, true, false);
    scene.clear();
    scene.add(...points);
    renderer.render(scene, camera);
  }
}

/** Undefined where the browser has no WebGL. */
function rendererOf(canvas: HTMLCanvasElement): WebGLRenderer | undefined {
  const context = canvas.getContext("webgl2", {
    antialias: false,
    preserveDrawingBuffer: true,
    powerPreference: "high-performance",
  });
  if (!context) return undefined;
  const renderer = new WebGLRenderer({ canvas, context });
  renderer.outputColorSpace = LinearSRGBColorSpace;
  renderer.autoClear = false;
  renderer.sortObjects = false;
  // Asking for the errors of a shader waits until it is compiled.
  renderer.debug.checkShaderErrors = import.meta.env.DEV;
  renderer.setScissorTest(true);
  return renderer;
}

/** The panes of the cloud and of the sample: the same one, or halves of the canvas. */
export function panesOf(width: number, height: number, over: boolean): readonly [Pane, Pane] {
  const pane = (x: number, y: number, w: number, h: number): Pane => ({
    x,
    y,
    width: w,
    height: h,
  });
  const whole = pane(0, 0, width, height);
  if (over) return [whole, whole];
  // As the style sheet places the captions.
  return width > height
    ? [pane(0, 0, width / 2, height), pane(width / 2, 0, width / 2, height)]
    : [pane(0, height / 2, width, height / 2), pane(0, 0, width, height / 2)];
}
