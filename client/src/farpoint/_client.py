"""Synchronous client: blocking calls on one gRPC channel."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, overload

import grpc

from farpoint._base_client import BaseClient
from farpoint._connection.call import CallContext
from farpoint._connection.channel import open_channel
from farpoint._connection.shared_memory import Lease
from farpoint._rpcs import calls
from farpoint._rpcs.calls import UnaryRpc
from farpoint._rpcs.encode import EncodeRpc
from farpoint._rpcs.infer import CONCURRENCY, InferRpc
from farpoint._rpcs.methods import (
    EncodeOptions,
    InferOptions,
    Method,
    Nonfinite,
    Progress,
    SampleOptions,
)
from farpoint._rpcs.sample import SampleRpc
from farpoint._rpcs.stream import SampleStreamRpc, in_pieces
from farpoint._types import Attributes, BatchArray, CloudArray, CloudLike, Counts
from farpoint.memory import Memory, Trim
from farpoint.models import Encoding, Inference, Model
from farpoint.results import Sample, ServerInfo, StreamedSample

if TYPE_CHECKING:
    from typing_extensions import Unpack

Result = TypeVar("Result")


class Client(BaseClient[grpc.Channel]):
    """A connection to a Farpoint server; threads may share it.

    Args:
        target: "HOST:PORT", "dns:///HOST:PORT" (calls rotate over every address of the name),
            "unix:PATH", or several servers: "HOST:PORT,HOST:PORT" or a list, which get calls in
            turn. Names in a list are resolved once, at the first call.
        timeout: default timeout of a call in seconds, over all its attempts; None is unlimited.
        tls: True for TLS with gRPC's trusted authorities, the path of a PEM file with other
            authorities, or a `Tls`. False connects in plain text.
        token: a bearer token for every call. Without TLS it is sent only to this machine.
        credentials: gRPC channel credentials, instead of `tls`.
        shared_memory: "unix:PATH", the --shared-memory-listen of a server on this machine, which
            then reads larger clouds of `sample` from this process's memory.
        checksums: whether to request and verify a CRC-32C of each tensor of an answer. None does
            so in plain text; TLS detects damage itself.
        retry_budget: failed attempts after which nothing is repeated; successes restore it.

    Nothing is sent before the first call. A call that reached no server is repeated up to three
    times within its timeout, as long as few calls fail; a call that changes the server is never
    repeated. After its first answer a client waits, within the timeout, for a server that is away.
    """

    _open = staticmethod(open_channel)

    @overload
    def sample(
        self, points: CloudArray, m: Counts = None, **options: "Unpack[SampleOptions]"
    ) -> Sample: ...

    @overload
    def sample(  # type: ignore[overload-overlap]
        self,
        points: BatchArray | Sequence[CloudLike],
        m: Counts = None,
        **options: "Unpack[SampleOptions]",
    ) -> list[Sample]: ...

    @overload
    def sample(
        self, points: CloudLike, m: Counts = None, **options: "Unpack[SampleOptions]"
    ) -> Sample: ...

    def sample(
        self,
        points: Any,
        m: Counts = None,
        *,
        attributes: Attributes | None = None,
        start: int | Sequence[int] = 0,
        nonfinite: Nonfinite = "reject",
        radius: float | None = None,
        method: Method | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Samples points of each cloud, by farthest point sampling or another method.

        Args:
            points: one cloud (N, 3), or a batch: (B, N, 3) or a list of (Ni, 3). Arrays of numpy,
                torch or anything else with ``__array__`` or ``__dlpack__``, of any byte order
                and strides, or structured; objects of point cloud libraries; a `PackedCloud` or a
                message of ROS or Foxglove, which is sent without conversion. float16, bfloat16
                and float32 are sampled as they are; float64 is shifted to a local origin first,
                so map coordinates stay exact; integers are sent as float32 (up to 16 bits) or
                float64. A batch of several types is sent as the smallest type that holds all.
            m: number of samples of each cloud, from 1 to N; one number or one per cloud. With
                `radius` the maximum; None then is no maximum.
            attributes: values to gather at the samples, with one row per point: an array
                (N, ...) or a dict of arrays. For a batch one of these per cloud, or a dict with
                one array per cloud under each name. They are gathered here and never sent.
            start: row of the first sample; one number or one per cloud.
            nonfinite: "reject" makes a row with NaN or infinity an error; "ignore" never samples
                such rows. Indices refer to the rows of the input either way.
            radius: ends the sampling of each cloud at the first covering radius that is at most
                this, rounded to float32; in the unit of the coordinates. The result is a prefix
                of the result without it.
            method: `VoxelGrid`, `RandomSampling` or `PoissonDisk`; None is farthest point sampling.
                Each describes its use of `m` and `start`; `radius` must be None with all.
            timeout: seconds; None is the client's timeout.
            progress: called with the bytes of points sent so far and in all, for a request above
                16 MiB, which is then sent in pieces; from a thread of gRPC.

        Returns:
            A `Sample` for one cloud, a list of them for a batch; an empty list for an empty batch.

        Raises:
            InvalidArgumentError: an argument is invalid; its `field` names it.
            FarpointError: the call failed; see `farpoint.errors` for the subclasses.
        """
        context = self._start(timeout)
        with nullcontext() if self._memory is None else Lease(self._memory, context) as lease:
            rpc = SampleRpc(
                points=points,
                m=m,
                attributes=attributes,
                start=start,
                nonfinite=nonfinite,
                lease=lease,
                checksums=self._checksums,
                radius=radius,
                method=method,
            )
            if not rpc.batch.clouds:
                return []
            if self._message_limit is None and not rpc.is_certainly_accepted:
                info = self._invoke(calls.server_info(), context)
                self._message_limit = info.limits.message_bytes
            return self._invoke(in_pieces(rpc, self._message_limit, progress), context)

    def sample_stream(
        self,
        clouds: Iterable[CloudLike],
        m: int | None = None,
        *,
        start: int = 0,
        nonfinite: Nonfinite = "reject",
        radius: float | None = None,
        method: Method | None = None,
        latest_only: bool = False,
        timeout: float | None = None,
    ) -> Iterator[StreamedSample]:
        """Samples a stream of clouds and returns the answers in the same order.

        The answer to a cloud that fails is its error, and the stream goes on. Clouds are taken
        from the iterable as fast as the server answers and the caller reads.

        Args:
            clouds: iterable of single clouds (N, 3), of any size; as for `sample`.
            m: number of samples of each cloud.
            start: row of the first sample of each cloud.
            nonfinite: as for `sample`.
            radius: as for `sample`; `m` may be None then.
            method: as for `sample`.
            latest_only: for a live sensor that may be faster than the server: drops all waiting
                clouds but the newest, without an answer.
            timeout: seconds for the whole stream; None is unlimited.

        Returns:
            A `StreamedSample` for each cloud, or with `latest_only` for each that was not dropped.

        Raises:
            InvalidArgumentError: an argument is invalid.
            FarpointError: the stream itself failed; raised while it is read.
        """
        rpc = SampleStreamRpc(
            m=m,
            start=start,
            nonfinite=nonfinite,
            latest_only=latest_only,
            context=self._start_stream(timeout),
            checksums=self._checksums,
            radius=radius,
            method=method,
        )
        return self._read_stream(rpc, clouds)

    @overload
    def encode(self, points: CloudArray, **options: "Unpack[EncodeOptions]") -> Encoding: ...

    @overload
    def encode(  # type: ignore[overload-overlap]
        self, points: BatchArray | Sequence[CloudLike], **options: "Unpack[EncodeOptions]"
    ) -> list[Encoding]: ...

    @overload
    def encode(self, points: CloudLike, **options: "Unpack[EncodeOptions]") -> Encoding: ...

    def encode(
        self,
        points: Any,
        *,
        model: str | None = None,
        attributes: Attributes | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Runs an encoder on each cloud.

        Args:
            points: one cloud (N, 3), or a batch; as for `sample`. Every row must be finite.
            model: name of a loaded encoder; None is the first one.
            attributes: values per point for an encoder that takes them: an array (N, A) or (N,),
                or a dict of such arrays, whose columns are concatenated in order. For a batch
                one of these per cloud. Sent as float32.
            timeout: seconds; None is the client's timeout.

        Returns:
            An `Encoding` for one cloud, a list of them for a batch; an empty list for an empty
            batch. Its `stages` have the points and features of each stage.

        Raises:
            InvalidArgumentError: an argument is invalid; its `field` names it.
            NotFoundError: the model is not loaded.
            FarpointError: the call failed; see `farpoint.errors` for the subclasses.
        """
        context = self._start(timeout)
        rpc = EncodeRpc(points, model, attributes, self._checksums)
        return self._invoke(rpc, context) if rpc.batch.clouds else []

    @overload
    def infer(
        self, model: str, inputs: Mapping[str, Any], **options: "Unpack[InferOptions]"
    ) -> Inference: ...

    @overload
    def infer(
        self, model: str, inputs: Sequence[Mapping[str, Any]], **options: "Unpack[InferOptions]"
    ) -> list[Inference]: ...

    def infer(
        self,
        model: str,
        inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Runs a loaded model: an exported one, an encoder, or `fps`.

        Args:
            model: name of the model; `list_models` has the inputs and outputs of exported ones.
            inputs: arrays by the model's names, of any library that `sample` takes. Clouds are
                one (N, 3) or a batch of equal size (B, N, 3), with a row for each point or a
                value for each cloud in the other inputs; outputs have the same form. float64 is
                narrowed if the model takes float32. A list of such mappings is a batch of clouds
                of any sizes: one request each, which the server batches where possible.
            outputs: names of the outputs to return; None is all.
            timeout: seconds for all requests; None is the client's timeout.

        Returns:
            An `Inference`, or a list of them for a list.

        Raises:
            InvalidArgumentError: an argument is invalid, or the model refuses it; its `field`
                names it.
            NotFoundError: the model is not loaded.
            FarpointError: the call failed; see `farpoint.errors` for the subclasses.
        """
        context = self._start(timeout)
        batch = [inputs] if isinstance(inputs, Mapping) else inputs
        rpcs = [InferRpc(model, each, outputs, self._checksums) for each in batch]
        if isinstance(inputs, Mapping):
            return self._invoke(rpcs[0], context)
        with ThreadPoolExecutor(CONCURRENCY) as threads:
            return list(threads.map(lambda rpc: self._invoke(rpc, context), rpcs))

    def list_models(self, *, timeout: float | None = None) -> list[Model]:
        """The loaded models; `encode` uses the first one by default."""
        return self._invoke(calls.list_models(), self._start(timeout))

    def load_model(
        self,
        name: str,
        path: "str | os.PathLike[str] | None" = None,
        *,
        timeout: float | None = None,
    ) -> Model:
        """Loads a model into the server and returns once it is ready.

        It replaces a model of the same name; calls in flight finish on the old one.

        Args:
            name: name of the model in `encode` and `infer`.
            path: file on the server's machine: a safetensors file of an encoder, or a .pt2
                archive, which is code that the server will run; None is the shipped weights.
            timeout: seconds; None is the client's timeout.
        """
        return self._invoke(calls.load_model(name, path), self._start(timeout))

    def unload_model(self, name: str, *, timeout: float | None = None) -> None:
        """Unloads a model; calls that use it finish."""
        self._invoke(calls.unload_model(name), self._start(timeout))

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """The server's version, devices, methods and limits."""
        return self._invoke(calls.server_info(), self._start(timeout))

    def memory(self, *, timeout: float | None = None) -> Memory:
        """The memory use of each of the server's devices."""
        return self._invoke(calls.get_memory(), self._start(timeout))

    def trim_memory(self, *, force: bool = False, timeout: float | None = None) -> list[Trim]:
        """Makes the server return cached memory; one `Trim` for each device.

        Args:
            force: trim after the running batch, ahead of the queue, instead of waiting for a
                moment without work.
            timeout: seconds; None is the client's timeout.
        """
        return self._invoke(calls.trim_memory(force), self._start(timeout))

    def close(self) -> None:
        """Closes the connection; calls in flight are cancelled."""
        channel = self._end()
        if channel is not None:
            channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_stream(
        self, rpc: SampleStreamRpc, clouds: Iterable[CloudLike]
    ) -> Iterator[StreamedSample]:
        stubs = self._stubs or self._open_stubs()
        with self._calling(rpc.context):
            answers = stubs.sampling.SampleStream(rpc.requests(clouds), **rpc.options)
            try:
                for answer in answers:
                    yield from rpc.read(answer)
            finally:
                answers.cancel()
        yield from rpc.finish()

    def _invoke(self, rpc: UnaryRpc[Any, Result], context: CallContext) -> Result:
        method = rpc.method(self._stubs or self._open_stubs())
        with self._calling(context):
            response = method(rpc.request, **context.rpc_options())
        return rpc.read(response, context)
