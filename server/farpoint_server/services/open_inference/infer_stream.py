"""Handler of ModelStreamInfer: each request as in ModelInfer, what fails in `error_message`."""

from collections.abc import Sequence

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server import request_context
from farpoint_server.codec.open_inference.message import InferMessage, read_infer_message
from farpoint_server.codec.wire import Buffer
from farpoint_server.errors import clear_tracebacks, status_of
from farpoint_server.services.open_inference.infer_handler import InferHandler
from farpoint_server.services.ordered_stream import OrderedStream
from farpoint_server.transport import interceptor
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.limits.open_calls import Outgoing

# Metadata of a call by which Triton's clients ask for a status instead of `error_message`.
STATUS_KEY = "triton_grpc_error"
FINAL = "triton_final_response"


class InferStream(OrderedStream):
    """The state of one call.

    Args:
        context: Of the call.
        handler: Answers its requests.
        outgoing: Where responses count until they are written.
        idle_s: Seconds without a request, and with none under way, after which the call ends.
    """

    def __init__(
        self, context: Context, handler: InferHandler, outgoing: Outgoing, idle_s: float
    ) -> None:
        super().__init__(context, outgoing, idle_s)
        self._handler = handler
        metadata = dict(context.invocation_metadata() or ())
        self._fails_with_status = metadata.get(STATUS_KEY) == "true"

    async def _handle(self, index: int, raw: bytes, arrived: float) -> Sequence[Buffer]:
        """The ModelStreamInferResponse to one request; what fails fails it alone.

        Raises:
            ServiceError: it failed, and the caller wants the call to end then.
        """
        request_context.fork(request_index=index)
        message: InferMessage | None = None
        try:
            message = read_infer_message(raw)
            timeout_s = self._context.time_remaining()
            answer = await self._handler.infer(message, arrived, timeout_s)
        except Exception as error:
            if self._fails_with_status:  # which the end of the call is logged with
                raise
            interceptor.log_end(arrived, error)
            clear_tracebacks(error)
            return [self._failure(message, error).SerializeToString()]
        interceptor.log_end(arrived)
        answer.parameters[FINAL].bool_param = True
        return [pb.ModelStreamInferResponse(infer_response=answer).SerializeToString()]

    def _failure(
        self, message: InferMessage | None, error: Exception
    ) -> pb.ModelStreamInferResponse:
        answer = pb.ModelInferResponse()
        if message is not None:
            answer.id, answer.model_name = message.request.id, message.request.model_name
        answer.parameters[FINAL].bool_param = True
        text = status_of(error, self._request_id).message
        return pb.ModelStreamInferResponse(error_message=text, infer_response=answer)
