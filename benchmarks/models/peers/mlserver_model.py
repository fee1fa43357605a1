"""MLServer runtime: clouds as elements of BYTES, which its batching puts into one request."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput
from program import Model


class Cloud(MLModel):
    async def load(self) -> bool:
        self.model = Model()
        self.thread = ThreadPoolExecutor(1)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        clouds = payload.inputs[0]
        # Beside the event loop, which gathers the next batch meanwhile.
        loop = asyncio.get_running_loop()
        data = await loop.run_in_executor(self.thread, self.model.answer, list(clouds.data))
        output = ResponseOutput(name="logits", shape=[len(data), 1], datatype="BYTES", data=data)
        return InferenceResponse(model_name=self.name, outputs=[output])
