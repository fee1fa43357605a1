// Typed arrays as tensors of the contract, and back.

import { DataType, type Tensor } from "../gen/farpoint/v1/tensor_pb";

interface TensorInit {
  dataType: DataType;
  shape: bigint[];
  data: Uint8Array<ArrayBuffer>;
}

/** Of shape (N, 3), sharing memory. */
export function pointsTensor(points: Float32Array | Float64Array): TensorInit {
  const dataType = points instanceof Float64Array ? DataType.FLOAT64 : DataType.FLOAT32;
  const data = new Uint8Array(points.buffer as ArrayBuffer, points.byteOffset, points.byteLength);
  return { dataType, shape: [BigInt(points.length / 3), 3n], data };
}

export function int32Of(tensor: Tensor | undefined): Int32Array {
  return new Int32Array(bufferOf(tensor, DataType.INT32));
}

export function float32Of(tensor: Tensor | undefined): Float32Array {
  return new Float32Array(bufferOf(tensor, DataType.FLOAT32));
}

/** A copy, since the bytes of a message may begin at any address. */
function bufferOf(tensor: Tensor | undefined, type: DataType): ArrayBuffer {
  if (!tensor || tensor.dataType !== type)
    throw new Error("The answer has a tensor of another type.");
  return tensor.data.slice().buffer;
}
