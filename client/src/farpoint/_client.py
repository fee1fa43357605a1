"""The synchronous client: blocking calls on one gRPC channel."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, overload

import grpc

from farpoint._base_client import BaseClient
from farpoint._connection.call import CallContext, start_call
from farpoint._connection.channel import open_channel
from farpoint._connection.shared_memory import Lease
from farpoint._rpcs import calls
from farpoint._rpcs.calls import UnaryRpc
from farpoint._rpcs.encode import EncodeRpc
from farpoint._rpcs.infer import CONCURRENCY, InferRpc
from farpoint._rpcs.methods import EncodeOptions, InferOptions, Method, Nonfinite, SampleOptions
from farpoint._rpcs.sample import SampleRpc
from farpoint._rpcs.stream import CERTAINLY_ACCEPTED_BYTES, SampleStreamRpc, within_limit
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
        target: "HOST:PORT", "dns:///HOST:PORT" (every address that the name has takes its turn),
            "unix:PATH", or several servers: "HOST:PORT,HOST:PORT" or a list. Names in a list are
            looked up once, at the first call.
        timeout: seconds that a call may take in all when it names none itself; None is without
            limit.
        tls: True for TLS with the authorities that gRPC trusts, the path of a PEM file with
            others, or a `Tls` with more. False connects in plain text.
        token: a bearer token for every call. Without TLS it is only sent to this machine.
        credentials: gRPC's own, instead of `tls`.
        shared_memory: "unix:PATH" as in the --shared-memory-listen of a server on this machine,
            which then reads larger clouds of `sample` from this process's memory.
        checksums: whether answers are checked for damage on their way by the CRC-32C of each
            tensor. None checks in plain text, where the server has them; True everywhere, and an
            answer without them is an error. TLS finds damage by itself.

    Nothing is sent before the first call. A call that the server did not accept because it was
    away is repeated up to three times within its timeout, as long as few calls fail; one that
    changes the server is never repeated.
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
    ) -> Any:
        """Chooses points of each cloud: the farthest, m or as many as a radius takes, or others.

        Args:
            points: one cloud (N, 3), or a batch: (B, N, 3) or a list of (Ni, 3). Arrays of numpy,
                torch or anything else with ``__array__`` or ``__dlpack__``, of any byte order
                and strides; objects of point cloud libraries; a `PackedCloud` or a message of
                ROS or Foxglove like one, which is sent as it lies in memory. float16, bfloat16
                and float32 are sampled as they are; float64 is shifted to a local origin first,
                so map coordinates stay exact; integers are sent as float32 (up to 16 bits) or
                float64. Clouds of several types become the smallest type that holds all.
            m: points to choose from each cloud, from 1 to N; one number or one per cloud. With
                `radius` at most so many, and None for as many as it takes.
            attributes: values to gather at the chosen points, with one row per point: an array
                (N, ...) or a dict of arrays. For a batch one of these per cloud, or a dict with
                one array per cloud under each name. They are gathered here and never sent.
            start: row that is chosen first; one number or one per cloud.
            nonfinite: "reject" makes a row with NaN or infinity an error; "ignore" never chooses
                such rows. Indices refer to the rows as passed in either way.
            radius: where the sampling of each cloud ends, in the unit of its coordinates: at the
                first covering radius that is at most this, rounded to float32. The result is the
                beginning of the one without it.
            method: `VoxelGrid`, `RandomSampling` or `PoissonDisk`; None is farthest point sampling.
                What each makes of `m` and `start` is on its page; `radius` is None with all.
            timeout: seconds; None takes the client's.

        Returns:
            A `Sample` for one cloud, a list of them for a batch; an empty list for an empty one.

        Raises:
            InvalidArgumentError: an argument is wrong; its `field` says which.
            FarpointError: the call failed; see `farpoint.errors` for the kinds.
        """
        context = self._start(timeout)
        with nullcontext() if self._memory is None else Lease(self._memory, context) as lease:
            rpc = SampleRpc(
                *(points, m, attributes, start, nonfinite),
                *(lease, self._checksums, radius, method),
            )
            if not rpc.batch.clouds:
                return []
            return self._send(rpc, context)

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
        """Samples clouds as they come, and answers in their order.

        A cloud that fails is answered with its error, and the stream goes on. Clouds are taken
        from the iterable as fast as the server and the reader of the answers keep up.

        Args:
            clouds: one cloud (N, 3) at a time, of any size, or a message with one; as for
                `sample`.
            m: points to choose from each cloud.
            start: row of each cloud that is chosen first.
            nonfinite: as for `sample`.
            radius: as for `sample`; `m` may be None then.
            method: as for `sample`.
            latest_only: for a live sensor that may be faster than the server: of the clouds that
                wait, all but the newest are dropped unanswered.
            timeout: seconds for the whole stream; None is without limit.

        Returns:
            A `StreamedSample` for each cloud, or with `latest_only` for each that was not dropped.

        Raises:
            InvalidArgumentError: an argument is wrong.
            FarpointError: the stream itself failed, while it is read.
        """
        rpc = SampleStreamRpc(
            *(m, start, nonfinite, latest_only, start_call(timeout, target=self.target)),
            *(self._checksums, radius, method),
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
        """Runs a model over each cloud.

        Args:
            points: one cloud (N, 3), or a batch; as for `sample`. Every row must be finite.
            model: name of a model that the server has loaded; None takes its first.
            attributes: values for a model that takes some with each point: an array (N, A) or
                (N,), or a dict of such, whose columns are joined in its order. For a batch one
                of these per cloud. Sent as float32.
            timeout: seconds; None takes the client's.

        Returns:
            An `Encoding` for one cloud, a list of them for a batch; an empty list for an empty
            one. Its `stages` hold what each stage of the model keeps.

        Raises:
            InvalidArgumentError: an argument is wrong; its `field` says which.
            NotFoundError: there is no such model.
            FarpointError: the call failed; see `farpoint.errors` for the kinds.
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
        """Runs a model that the server has loaded: an exported one, an encoder, or `fps`.

        Args:
            model: its name; `list_models` says what an exported model takes and gives.
            inputs: arrays by the model's own names, of any library that `sample` takes. Clouds
                are one (N, 3) or a batch of equal ones (B, N, 3), with a row for each point or a
                value for each cloud in the other inputs; the outputs are shaped alike. float64
                is narrowed where the model takes float32. A list of such mappings is a batch of
                clouds of any sizes: one request each, which the server joins where it can.
            outputs: names of those that are wanted; None is all.
            timeout: seconds for all; None takes the client's.

        Returns:
            An `Inference`, or a list of them for a list.

        Raises:
            InvalidArgumentError: an argument is wrong, or the model refuses it; its `field` says
                which.
            NotFoundError: there is no such model.
            FarpointError: the call failed; see `farpoint.errors` for the kinds.
        """
        context = self._start(timeout)
        batch = [inputs] if isinstance(inputs, Mapping) else inputs
        rpcs = [InferRpc(model, each, outputs, self._checksums) for each in batch]
        if isinstance(inputs, Mapping):
            return self._invoke(rpcs[0], context)
        with ThreadPoolExecutor(CONCURRENCY) as threads:
            return list(threads.map(lambda rpc: self._invoke(rpc, context), rpcs))

    def list_models(self, *, timeout: float | None = None) -> list[Model]:
        """The models that are ready; `encode` takes the first if it is given none."""
        return self._invoke(calls.list_models(), self._start(timeout))

    def load_model(
        self, name: str, path: str | None = None, *, timeout: float | None = None
    ) -> Model:
        """Has the server load a model, and returns once it is ready.

        Calls that use a model of the same name finish on that one.

        Args:
            name: what `encode` or `infer` is to call it.
            path: on the server's machine, of a safetensors file of an encoder, or of a .pt2
                archive, which is code that the server will run; None for the weights that come
                with the server.
            timeout: seconds; None takes the client's.
        """
        return self._invoke(calls.load_model(name, path), self._start(timeout))

    def unload_model(self, name: str, *, timeout: float | None = None) -> None:
        """Has the server unload a model; calls that use it finish."""
        self._invoke(calls.unload_model(name), self._start(timeout))

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """The server's version, devices, methods and limits."""
        return self._invoke(calls.server_info(), self._start(timeout))

    def memory(self, *, snapshots: bool = False, timeout: float | None = None) -> Memory:
        """The memory of each of the server's devices, by use.

        Args:
            snapshots: whether to include torch's memory snapshots, which can be large.
            timeout: seconds; None takes the client's.
        """
        return self._invoke(calls.get_memory(snapshots), self._start(timeout))

    def trim_memory(self, *, force: bool = False, timeout: float | None = None) -> list[Trim]:
        """Has the server give cached memory back; one `Trim` for each device.

        Args:
            force: do not wait for a moment without work, as long as the timeout allows, but trim
                after the batch that runs, ahead of what is queued.
            timeout: seconds; None takes the client's.
        """
        return self._invoke(calls.trim_memory(force), self._start(timeout))

    def close(self) -> None:
        """Ends the connection; calls under way are cancelled."""
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
        answers = stubs.sampling.SampleStream(rpc.requests(clouds), **rpc.options)
        try:
            for answer in answers:
                yield from rpc.read(answer)
        except grpc.RpcError as error:
            raise rpc.context.failure(error) from error
        finally:
            answers.cancel()
        yield from rpc.finish()

    def _send(self, rpc: SampleRpc, context: CallContext) -> Sample | list[Sample]:
        """As one message where the server accepts so large a one, else as an upload."""
        if self._message_limit is None and rpc.request.ByteSize() > CERTAINLY_ACCEPTED_BYTES:
            info = self._invoke(calls.server_info(), context)
            self._message_limit = info.limits.message_bytes
        return self._invoke(within_limit(rpc, self._message_limit), context)

    def _invoke(self, rpc: UnaryRpc[Any, Result], context: CallContext) -> Result:
        try:
            method = rpc.method(self._stubs or self._open_stubs())
            response = method(rpc.request, **context.rpc_options())
        except grpc.RpcError as error:
            raise context.failure(error) from error
        return rpc.read(response, context)
