// The camera: OrbitControls of three.js, keys, and a first view that frames the cloud.

import { PerspectiveCamera, Vector3 } from "three";
import { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
import type { Framed } from "./framing";

/** Share of the pane that the cloud fills. */
const FILL = 0.94;
const KEYS: Record<string, readonly [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
};

export class Orbit {
  readonly camera = new PerspectiveCamera(40, 1, 0.01, 100);
  private readonly controls: OrbitControls;
  private framed: Framed | undefined;
  private isHome = true;
  private isPlacing = false;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    moved: () => void,
  ) {
    this.camera.up.set(0, 0, 1);
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.addEventListener("change", () => {
      if (this.isPlacing) return;
      this.isHome = false;
      moved();
    });
    const home = (): void => {
      this.reset();
      moved();
    };
    canvas.addEventListener("dblclick", home);
    canvas.addEventListener("keydown", (event) => this.press(event, home));
  }

  look(framed: Framed): void {
    this.framed = framed;
    this.controls.minDistance = framed.radius * 0.005;
    this.controls.maxDistance = framed.radius * 40;
    this.reset();
  }

  reset(): void {
    this.isHome = true;
    this.fit();
  }

  setAspect(aspect: number): void {
    if (Math.abs(this.camera.aspect - aspect) < 1e-6) return;
    this.camera.aspect = aspect;
    if (this.isHome) this.fit();
  }

  get distance(): number {
    return this.controls.getDistance();
  }

  /** Position and target in radii of the cloud; empty at home. */
  get view(): string {
    if (this.isHome || !this.framed) return "";
    const places = [this.camera.position, this.controls.target].flatMap((at) => at.toArray());
    return places.map((value) => Number((value / this.framed!.radius).toFixed(4))).join(",");
  }

  /** Ignores text that is no view. */
  set view(text: string) {
    const numbers = text.split(",").map((value) => Number(value) * (this.framed?.radius ?? 1));
    if (numbers.length !== 6 || !numbers.every(Number.isFinite)) return;
    this.isHome = false;
    this.place(new Vector3().fromArray(numbers), new Vector3().fromArray(numbers, 3));
  }

  /** The camera with its matrices up to date. */
  ready(): PerspectiveCamera {
    const { camera, framed, distance } = this;
    camera.near = Math.max(distance * 0.01, (framed?.radius ?? 1) * 1e-4);
    camera.far = distance + (framed?.radius ?? 1) * 60;
    camera.updateProjectionMatrix();
    camera.updateMatrixWorld();
    return camera;
  }

  /** Looks at the core of the cloud from the nearest place that has all of it in the pane. */
  private fit(): void {
    if (!this.framed) return;
    const { core, toward } = this.framed;
    const ahead = new Vector3(...toward).normalize();
    const right = new Vector3().crossVectors(ahead, this.camera.up).normalize();
    const up = new Vector3().crossVectors(right, ahead);
    const tangent = Math.tan((this.camera.fov * Math.PI) / 360) * FILL;
    const sides = [right, up].map((axis, k) => ({
      axis,
      tangent: k ? tangent : tangent * this.camera.aspect,
    }));
    // A pane's border is a plane through the camera: the outermost point on each side places it.
    const point = new Vector3();
    const limits = sides.map(() => [-Infinity, -Infinity]);
    for (let i = 0; i < core.length; i += 3) {
      point.fromArray(core, i);
      const depth = point.dot(ahead);
      sides.forEach((side, k) => {
        const off = point.dot(side.axis) / side.tangent;
        limits[k]![0] = Math.max(limits[k]![0]!, off - depth);
        limits[k]![1] = Math.max(limits[k]![1]!, -off - depth);
      });
    }
    const fitting = limits.map(([high, low]) => (high! + low!) / 2);
    const away = Math.max(...fitting, this.framed.radius * 0.1);
    const position = ahead.clone().multiplyScalar(-away);
    sides.forEach((side, k) =>
      position.addScaledVector(side.axis, ((limits[k]![0]! - limits[k]![1]!) / 2) * side.tangent),
    );
    this.place(position, position.clone().addScaledVector(ahead, away));
  }

  private place(position: Vector3, target: Vector3): void {
    this.isPlacing = true;
    this.camera.position.copy(position);
    this.controls.target.copy(target);
    this.controls.update();
    this.isPlacing = false;
  }

  private press(event: KeyboardEvent, home: () => void): void {
    const { controls } = this;
    const step = KEYS[event.key];
    const pixels = this.canvas.clientHeight * 0.05;
    if (step && event.shiftKey) controls.pan(step[0] * pixels, -step[1] * pixels);
    else if (step?.[0]) controls.rotateLeft(step[0] * 0.08);
    else if (step) controls.rotateUp(step[1] * 0.08);
    else if (event.key === "+" || event.key === "=") controls.dollyIn(0.88);
    else if (event.key === "-") controls.dollyOut(0.88);
    else if (event.key === "Home" || event.key === "0") home();
    else return;
    event.preventDefault();
  }
}
