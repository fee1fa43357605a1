// The camera: OrbitControls of three.js, and a first view that frames the cloud.

import { PerspectiveCamera, Vector3 } from "three";
import { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
import type { Framed } from "./framing";

/** Clouds are flat or long, so the ball around them may stand out of the pane. */
const FILL = 1.45;

export class Orbit {
  readonly camera = new PerspectiveCamera(40, 1, 0.01, 100);
  private readonly controls: OrbitControls;
  private radius = 1;

  constructor(canvas: HTMLCanvasElement, moved: () => void) {
    this.camera.up.set(0, 0, 1);
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.listenToKeyEvents(canvas);
    this.controls.addEventListener("change", moved);
  }

  /** Looks at a cloud from above one of its corners, or along the view of its camera. */
  look({ radius, fromCamera }: Framed, aspect: number): void {
    this.radius = radius;
    const tangent = Math.tan((this.camera.fov * Math.PI) / 360) * Math.min(1, aspect);
    const toward = fromCamera ? new Vector3(0, 1, 0) : new Vector3(0.73, 0.35, -0.59);
    this.camera.position.copy(toward).multiplyScalar(-radius / (tangent * FILL));
    this.controls.target.set(0, 0, 0);
    this.controls.update();
  }

  /** Makes the camera ready for a pane. */
  prepare(aspect: number): void {
    const { camera, radius } = this;
    const distance = this.controls.getDistance();
    camera.aspect = aspect;
    camera.near = Math.max(distance * 0.01, radius * 1e-4);
    camera.far = distance + radius * 60;
    camera.updateProjectionMatrix();
    camera.updateMatrixWorld();
  }
}
