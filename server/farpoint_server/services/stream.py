"""Handler of SampleStream: each request as in Sample, and the mode that skips to the latest."""

from collections.abc import Sequence
from functools import partial

from farpoint.v1 import sampling_pb2
from farpoint_server import request_context
from farpoint_server.codec.sample_request import SampleMessage, parse_sample_request
from farpoint_server.codec.sample_response import sample_response_chunks
from farpoint_server.codec.streaming import read_stream_message
from farpoint_server.codec.wire import Buffer, length_delimited
from farpoint_server.errors import InvalidRequestError, clear_tracebacks, status_of
from farpoint_server.services.ordered_stream import OrderedStream
from farpoint_server.services.pipeline import Pipeline, SampleCall
from farpoint_server.transport import interceptor
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.limits.open_calls import Outgoing


class SampleStream(OrderedStream):
    """The state of one call, in which STREAM_MODE_LATEST answers the latest request alone."""

    def __init__(
        self, context: Context, pipeline: Pipeline, outgoing: Outgoing, idle_s: float
    ) -> None:
        super().__init__(context, outgoing, idle_s)
        self._pipeline = pipeline

    async def _handle(self, index: int, raw: bytes, arrived: float) -> Sequence[Buffer]:
        """The SampleStreamResponse to one request, as chunks; what fails fails it alone."""
        response = sampling_pb2.SampleStreamResponse
        request_context.fork(request_index=index)
        head = response(request_index=index).SerializeToString()
        try:
            pipeline = self._pipeline
            request = parse_sample_request(self._parse(raw)[0], pipeline.limits, pipeline.regions)
            call = SampleCall(request, partial(sample_response_chunks, arrived))
            chunks = await pipeline.run(call, self._context.time_remaining())
        except Exception as error:
            interceptor.log_end(arrived, error)
            clear_tracebacks(error)
            status = status_of(error, self._request_id)
            return [head, response(error=status).SerializeToString()]
        interceptor.log_end(arrived)
        return [head, *length_delimited(response.RESPONSE_FIELD_NUMBER, chunks)]

    def _is_latest(self, raw: bytes) -> bool:
        """The mode of a first message; one that does not parse is told so when it is answered."""
        try:
            return self._parse(raw)[1] == sampling_pb2.STREAM_MODE_LATEST
        except InvalidRequestError:
            return False

    def _parse(self, raw: bytes) -> tuple[SampleMessage, int]:
        return read_stream_message(raw, self._pipeline.limits.clouds)
