// The refusals of the server, checked before a cloud is sent.

import { count, megabytes } from "../base/format";
import type { Cloud } from "../cloud/cloud";
import type { Framed } from "../view/framing";
import { info } from "./connection";
import { settings } from "./settings";

export interface Scene {
  readonly cloud: Cloud;
  readonly framed: Framed;
  /** How many rows are finite. */
  readonly finite: number;
}

/** @throws Error with one sentence: the cloud is above a limit, or has rows that are to be refused. */
export function refuse(scene: Scene): void {
  refuseOversize(scene.cloud);
  refuseNonfinite(scene);
}

function refuseOversize({ name, points, count: rows }: Cloud): void {
  const limits = info.value?.limits;
  if (!limits) return;
  const [mostPoints, mostBytes] = [Number(limits.requestPoints), Number(limits.messageBytes)];
  // A message has some fifty bytes more than its coordinates.
  const excess =
    rows > mostPoints
      ? `${count(rows)} points; this server takes ${count(mostPoints)}`
      : points.byteLength + 256 > mostBytes
        ? `${megabytes(points.byteLength)} of coordinates; this server takes ${megabytes(mostBytes)}`
        : "";
  if (excess) throw new Error(`${name} has ${excess} in a call.`);
}

function refuseNonfinite({ cloud, framed, finite }: Scene): void {
  if (settings.nonfinite.value === "ignore" || finite === cloud.count) return;
  throw new Error(
    `${cloud.name} has ${count(cloud.count - finite)} rows with NaN or infinity, the first is row ${count(framed.finite.indexOf(0))}; "Skip" samples the others.`,
  );
}
