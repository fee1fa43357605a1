"""MLServer runtime: a tensor of numbers comes back as it is; elements of BYTES are requests."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from handler import PROGRAM, make_handler
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput


class Cloud(MLModel):
    async def load(self) -> bool:
        self.handler = make_handler()
        self.thread = ThreadPoolExecutor(1)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        cloud = payload.inputs[0]
        data = cloud.data
        if cloud.datatype == "BYTES" and PROGRAM:
            # The event loop gathers the next batch meanwhile.
            loop = asyncio.get_running_loop()
            data = await loop.run_in_executor(self.thread, self.handler.answer, list(data))
        elif cloud.datatype == "BYTES":
            data = self.handler.answer(list(data))
        shape = [len(data), 1] if cloud.datatype == "BYTES" else cloud.shape
        output = ResponseOutput(name=cloud.name, shape=shape, datatype=cloud.datatype, data=data)
        return InferenceResponse(model_name=self.name, outputs=[output])
