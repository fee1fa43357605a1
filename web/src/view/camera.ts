// A camera on a sphere around what it looks at.

import { PerspectiveCamera, Vector3 } from "three";
import type { Framed } from "./framing";

export class OrbitCamera {
  readonly camera = new PerspectiveCamera(40, 1, 0.01, 100);
  private readonly target = new Vector3();
  private azimuth = 0;
  private elevation = 0;
  private distance = 1;
  private radius = 1;
  private home: Framed | undefined;
  private homeText = "";

  /** Looks at a cloud as it is first seen: from behind a shoulder, or as its camera saw it. */
  look(framed: Framed): void {
    this.home = framed;
    this.radius = framed.radius;
    this.target.set(...framed.center);
    this.distance = framed.radius * (framed.fromCamera ? 2.6 : 2.5);
    this.azimuth = framed.fromCamera ? -Math.PI / 2 : (-154 * Math.PI) / 180;
    this.elevation = framed.fromCamera ? 0 : (36 * Math.PI) / 180;
    this.camera.up.set(0, framed.fromCamera ? -1 : 0, framed.fromCamera ? 0 : 1);
    this.homeText = this.write();
  }

  reset(): void {
    if (this.home) this.look(this.home);
  }

  /** Angles in degrees, distance and target from the middle in radii of the cloud; empty at home. */
  get view(): string {
    const written = this.write();
    return written === this.homeText ? "" : written;
  }

  /** What is no such text is left out. */
  set view(text: string) {
    const numbers = text.split(",").map(Number);
    if (!this.home || numbers.length !== 6 || !numbers.every(Number.isFinite)) return;
    const [azimuth, elevation, distance, ...shift] = numbers as [number, number, number];
    this.reset();
    this.azimuth = (azimuth * Math.PI) / 180;
    this.turn(0, (elevation * Math.PI) / 180 - this.elevation);
    this.zoom((distance * this.radius) / this.distance);
    this.target.addScaledVector(new Vector3().fromArray(shift), this.radius);
  }

  private write(): string {
    const shift = this.target
      .clone()
      .sub(new Vector3(...(this.home?.center ?? [0, 0, 0])))
      .divideScalar(this.radius);
    const degrees = [this.azimuth, this.elevation].map((angle) => (angle * 180) / Math.PI);
    const rounded = [degrees[0]! % 360, degrees[1]!].map((angle) => Number(angle.toFixed(1)));
    const lengths = [this.distance / this.radius, ...shift.toArray()];
    return [...rounded, ...lengths.map((length) => Number(length.toFixed(3)))].join(",");
  }

  /** Angles in radians. */
  turn(right: number, up: number): void {
    this.azimuth -= right;
    this.elevation = Math.max(-1.55, Math.min(1.55, this.elevation + up));
  }

  /** Parts of the picture's height. */
  pan(right: number, up: number): void {
    this.place();
    const reach = 2 * this.distance * Math.tan((this.camera.fov * Math.PI) / 360);
    const [x, y] = [new Vector3(), new Vector3()];
    this.camera.matrixWorld.extractBasis(x, y, new Vector3());
    this.target.addScaledVector(x, -right * reach).addScaledVector(y, -up * reach);
  }

  zoom(factor: number): void {
    this.distance = Math.max(
      this.radius * 0.005,
      Math.min(this.radius * 40, this.distance * factor),
    );
  }

  /** Narrow pictures are seen from farther away, so that the cloud fits them. */
  setAspect(aspect: number): void {
    this.camera.aspect = aspect;
    this.camera.fov =
      aspect >= 1
        ? 40
        : (2 * Math.atan(Math.tan((20 * Math.PI) / 180) / Math.max(aspect, 0.4)) * 180) / Math.PI;
  }

  place(): PerspectiveCamera {
    const { camera, azimuth, elevation, distance, target } = this;
    const flat = Math.cos(elevation) * distance;
    const [across, along, rise] = [
      flat * Math.cos(azimuth),
      flat * Math.sin(azimuth),
      distance * Math.sin(elevation),
    ];
    if (camera.up.z) camera.position.set(target.x + across, target.y + along, target.z + rise);
    else camera.position.set(target.x + across, target.y - rise, target.z + along);
    camera.near = Math.max(distance * 0.01, this.radius * 1e-4);
    camera.far = distance + this.radius * 60;
    camera.lookAt(target);
    camera.updateProjectionMatrix();
    camera.updateMatrixWorld();
    return camera;
  }

  get seenFrom(): number {
    return this.distance;
  }
}
