"""`farpoint info`, `health`, `models`, `load` and `memory`.

The messages of grpc.health.v1 Check are sent as StringValue and Int32Value, which have the same
bytes: generated code would register grpc/health/v1/health.proto a second time in a process that
also uses grpcio-health-checking, whose newer versions need protobuf 7.
"""

import json
from dataclasses import asdict

import grpc
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from farpoint._client import Client
from farpoint._connection.call import CallContext
from farpoint._connection.channel import open_channel
from farpoint._default import Connection
from farpoint.errors import NotFoundError
from farpoint.memory import Memory
from farpoint.models import Model
from farpoint.results import ServerInfo

MIB = 1 << 20
_METHOD = "/grpc.health.v1.Health/Check"
_STATUS_NAMES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


def show(models: list[Model], *, as_json: bool) -> None:
    """Prints one line per model."""
    for model in models:
        print(json.dumps(asdict(model)) if as_json else _as_text(model))
    if not models and not as_json:
        print("no model is loaded")


def _as_text(model: Model) -> str:
    if not model.rates:
        takes, gives = (", ".join(t.name for t in each) for each in (model.inputs, model.outputs))
        return f"{model.name}: {takes} -> {gives}, {model.parameter_count:,} parameters"
    rates = ", ".join(f"{rate:.3g}" for rate in model.rates)
    takes = f", {model.attribute_channels} attributes" if model.attribute_channels else ""
    return (
        f"{model.name}: {len(model.rates)} stages keep {rates} of their points, "
        f"{model.feature_channels} features{takes}, {model.parameter_count:,} parameters"
    )


def show_info(info: ServerInfo, *, as_json: bool) -> None:
    """Prints the server's own description."""
    if as_json:
        print(json.dumps(asdict(info)))
        return
    print(f"farpoint-server {info.version}, torch {info.torch_version}")
    for device in info.devices:
        print(f"device   {device.name}: {device.description}")
    print(f"methods  {', '.join(info.methods)}")
    print(f"points   {', '.join(info.point_types)}")
    for name, limit in asdict(info.limits).items():
        print(f"limit    {name.replace('_', ' ')}: {limit}")


def show_health(connection: Connection, service: str, timeout: float, *, as_json: bool) -> int:
    """Prints the health of one service, or of the whole server for ""; the exit code."""
    status = _check_health(connection, service, timeout)
    print(json.dumps({"service": service, "status": status}) if as_json else status)
    return 0 if status == "SERVING" else 1


def _check_health(connection: Connection, service: str, timeout: float) -> str:
    context = CallContext(timeout, connection.target)
    with open_channel(connection.target, connection.security()) as channel:
        check = channel.unary_unary(
            _METHOD,
            request_serializer=StringValue.SerializeToString,
            response_deserializer=Int32Value.FromString,
        )
        try:
            status = check(StringValue(value=service), **context.rpc_options()).value
        except grpc.RpcError as error:
            failure = context.failure(error)
            if isinstance(failure, NotFoundError):
                return "SERVICE_UNKNOWN"
            raise failure from error
    return _STATUS_NAMES[status] if 0 <= status < len(_STATUS_NAMES) else str(status)


def show_memory(memory: Memory, *, as_json: bool) -> None:
    """Prints the memory."""
    if as_json:
        print(json.dumps(asdict(memory)))
        return
    print(f"process resident: {_mib(memory.resident_bytes)} MiB")
    for device in memory.devices:
        for name, value in vars(device).items():
            if name not in ("device", "trims"):
                title = name.removesuffix("_bytes").replace("_", " ")
                print(f"{device.device} {title:22} {_value(name, value):>15}")
        for reason, total in sorted(device.trims.items()):
            print(
                f"{device.device} {reason} trims: {total.count}, {total.total_ms:.1f} ms in all, "
                f"{total.longest_ms:.1f} ms the longest, {_mib(total.returned_bytes)} MiB returned"
            )


def trim(client: Client, *, as_json: bool) -> None:
    """Makes the server return cached memory and prints how much."""
    for done in client.trim_memory():
        text = f"{_mib(done.returned_bytes)} MiB returned in {done.duration_ms:.1f} ms"
        print(json.dumps(asdict(done)) if as_json else f"{done.device}: {text}")


def _value(name: str, value: object) -> str:
    if name == "limit_bytes" and not value:
        return "none"
    if name.endswith("bytes") and isinstance(value, int):
        return f"{_mib(value)} MiB"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _mib(size: int) -> str:
    return f"{size / MIB:,.1f}"
