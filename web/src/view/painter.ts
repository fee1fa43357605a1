// What the pictures are drawn with: WebGL where it is a graphics card, else the processor.

import type { Color, PerspectiveCamera } from "three";
import type { PointSet } from "./points";
import { SplatPainter } from "./splats";
import { WebGLPainter } from "./webgl";

/** A rectangle of the canvas in CSS pixels, from its lower left corner. */
export interface Pane {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Painter {
  /** Whether a picture is complete when `draw` returns, so that its time can be taken. */
  readonly isDone: boolean;
  /** The canvas in CSS pixels, and how many of its own pixels lie along one of them. */
  resize(width: number, height: number, ratio: number): void;
  /** Draws layers into a part of the canvas; each hides those before it. */
  draw(
    pane: Pane,
    background: Color,
    camera: PerspectiveCamera,
    layers: readonly (readonly PointSet[])[],
  ): void;
}

export type Renderer = "auto" | "webgl" | "cpu";

/** What computes WebGL itself takes half a microsecond for a point, SplatPainter a tenth of that. */
export function painterFor(canvas: HTMLCanvasElement, wanted: Renderer): Painter {
  const useWebGL = wanted === "webgl" || (wanted === "auto" && hasCard());
  const context =
    useWebGL &&
    canvas.getContext("webgl2", {
      antialias: false,
      preserveDrawingBuffer: true,
      powerPreference: "high-performance",
    });
  return context ? new WebGLPainter(canvas, context) : new SplatPainter(canvas);
}

/** Whether WebGL is more than a program on the processor; asked of a canvas that is thrown away. */
function hasCard(): boolean {
  const context = document.createElement("canvas").getContext("webgl2");
  if (!context) return false;
  let name = String(context.getParameter(context.RENDERER));
  // Where this says nothing an extension does, which warns in browsers that need none.
  const named = name === "WebKit WebGL" && context.getExtension("WEBGL_debug_renderer_info");
  if (named) name = String(context.getParameter(named.UNMASKED_RENDERER_WEBGL));
  context.getExtension("WEBGL_lose_context")?.loseContext();
  return !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}
