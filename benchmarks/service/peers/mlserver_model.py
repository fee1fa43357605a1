"""MLServer runtime: the tensor back as it came, or fpsample's answer to one of bytes."""

from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput
from sampling import answer


class Cloud(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        cloud = payload.inputs[0]
        data = [answer(cloud.data[0])] if cloud.datatype == "BYTES" else cloud.data
        output = ResponseOutput(
            name=cloud.name, shape=cloud.shape, datatype=cloud.datatype, data=data
        )
        return InferenceResponse(model_name=self.name, outputs=[output])
