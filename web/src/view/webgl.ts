// Point sets drawn by a graphics card.

import {
  ColorManagement,
  LinearSRGBColorSpace,
  Scene,
  WebGLRenderer,
  type Color,
  type PerspectiveCamera,
} from "three";
import type { Pane, Painter } from "./painter";
import type { PointSet } from "./points";

// Colors are painted as they shall be seen.
ColorManagement.enabled = false;

export class WebGLPainter implements Painter {
  readonly isDone = false;
  private readonly renderer: WebGLRenderer;
  private readonly scene = new Scene();

  constructor(canvas: HTMLCanvasElement, context: WebGL2RenderingContext) {
    this.renderer = new WebGLRenderer({ canvas, context });
    this.renderer.outputColorSpace = LinearSRGBColorSpace;
    this.renderer.autoClear = false;
    this.renderer.sortObjects = false;
    // Asking for the errors of a shader waits until it is compiled.
    this.renderer.debug.checkShaderErrors = import.meta.env.DEV;
    this.renderer.setScissorTest(true);
  }

  resize(width: number, height: number, ratio: number): void {
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
  }

  draw(
    { x, y, width, height }: Pane,
    background: Color,
    camera: PerspectiveCamera,
    layers: readonly (readonly PointSet[])[],
  ): void {
    this.renderer.setViewport(x, y, width, height);
    this.renderer.setScissor(x, y, width, height);
    this.renderer.setClearColor(background, 1);
    this.renderer.clear();
    layers.forEach((layer, i) => {
      if (i) this.renderer.clearDepth();
      this.scene.clear();
      this.scene.add(...layer.map((set) => set.object));
      this.renderer.render(this.scene, camera);
    });
  }
}
