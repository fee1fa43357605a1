"""Traces that are asked for where they cannot be made."""

import sys
import time

import pytest

from farpoint_server.errors import MissingPackageError
from farpoint_server.transport.tracing import TracingInterceptor


def test_without_opentelemetry_the_server_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingPackageError, match=r"farpoint-server\[tracing\]"):
        TracingInterceptor("http://127.0.0.1:1")


def test_a_collector_that_is_away_holds_up_nobody():
    pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc")
    tracing = TracingInterceptor("http://127.0.0.1:1")
    begun = time.monotonic()
    tracing.stop()
    assert time.monotonic() - begun < 20
