// Where the two pictures lie on the canvas.

export interface Panes {
  /** Of each picture, in CSS pixels. */
  readonly width: number;
  readonly height: number;
  /** The lower left corner of each, from that of the canvas. */
  readonly origins: readonly (readonly [number, number])[];
}

/** Beside each other, or one above the other where the canvas is higher than wide. */
export function panesOf(width: number, height: number, over: boolean): Panes {
  if (over) return { width, height, origins: [[0, 0]] };
  if (width >= height) {
    return {
      width: width / 2,
      height,
      origins: [
        [0, 0],
        [width / 2, 0],
      ],
    };
  }
  return {
    width,
    height: height / 2,
    origins: [
      [0, height / 2],
      [0, 0],
    ],
  };
}
