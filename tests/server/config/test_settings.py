"""Settings: where they come from, which source wins, and errors of wrong ones."""

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

import farpoint_server
from farpoint_server.config.cli import parse, unknown_variables
from farpoint_server.config.settings import Settings


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(monkeypatch, tmp_path):
    file = tmp_path / "farpoint.yaml"
    file.write_text("batch_points: 1\ncpu_threads: 1\nmax_connections: 1\n")
    monkeypatch.setenv("FARPOINT_BATCH_POINTS", "2")
    monkeypatch.setenv("FARPOINT_CPU_THREADS", "2")
    settings = parse(["--config", str(file), "--batch-points", "3"])
    assert (settings.batch_points, settings.cpu_threads, settings.max_connections) == (3, 2, 1)
    assert settings.device == ("auto",)


def test_the_environment_can_name_the_file(monkeypatch, tmp_path):
    file = tmp_path / "farpoint.yaml"
    file.write_text("listen: [127.0.0.1:1, unix:/run/farpoint]\n")
    monkeypatch.setenv("FARPOINT_CONFIG", str(file))
    assert parse([]).listen == ("127.0.0.1:1", "unix:/run/farpoint")


def test_listen_may_be_repeated_or_separated_by_commas(monkeypatch):
    assert parse(["--listen", "a:1", "--listen", "[::]:65535"]).listen == ("a:1", "[::]:65535")
    monkeypatch.setenv("FARPOINT_LISTEN", "a:1, unix:b")
    assert parse([]).listen == ("a:1", "unix:b")


def test_origins_are_a_scheme_and_a_host_or_any():
    origins = ("https://a.example:8443", "http://b", "*")
    assert parse(["--http-origins", ",".join(origins)]).http_origins == origins


def test_devices_may_be_repeated_or_separated_by_commas():
    assert parse(["--device", "cpu", "--device", "cuda:1"]).device == ("cpu", "cuda:1")
    assert parse(["--device", "cpu,cuda:0"]).device == ("cpu", "cuda:0")
    assert parse(["--device", "auto:all"]).device == ("auto:all",)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--listen", "nowhere"], "expected HOST:PORT or unix:PATH, got 'nowhere'"),
        (["--listen", "a:65536"], "got 'a:65536'"),
        (["--listen", "unix:"], "got 'unix:'"),
        (["--device", "tpu"], "--device"),
        (
            ["--cpu-threads", "-1"],
            "FARPOINT_CPU_THREADS, or cpu_threads in the file): Input should",
        ),
        (["--cpu-threads", "-1"], "greater than or equal to 0, got '-1'"),
        (["--log-format", "xml"], "'json' or 'console'"),
        (["--max-request-points", "40000000"], "could never be accepted"),
        (["--config", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["--max-message-bytes", "600000000"], "max_bytes_in_flight (536870912)"),
        (["--tls-key", "k.pem"], "belong together"),
        (["--tls-client-ca", "c.pem"], "needs tls_certificate and tls_key"),
        (["--admin-listen", "0.0.0.0:1"], "0.0.0.0:1 is beyond loopback"),
        (["--admin-listen", "gpu-node:1", "--tls-key", "k", "--tls-certificate", "c"], "gpu-node"),
        (["--http-listen", "unix:/a"], "expected HOST:PORT, got 'unix:/a'"),
        (["--probe-listen", "unix:/a"], "expected HOST:PORT, got 'unix:/a'"),
        (["--processes", "many"], "--processes"),
        (["--http-origins", "viewer.example"], "expected http(s)://HOST, without a path, or *"),
        (["--http-origins", "https://a,https://b/page"], "got 'https://b/page'"),
        (["--shared-memory-listen", "a:1"], "expected unix:PATH, got 'a:1'"),
        (["--otlp-endpoint", "collector:4317"], "--otlp-endpoint"),
        (["--nonsense", "1"], "--nonsense"),
    ],
)
def test_a_wrong_flag_is_named_and_ends_the_program(capsys, flags, message):
    with pytest.raises(SystemExit) as caught:
        parse(flags)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_administration_beyond_this_machine_needs_tokens_or_client_certificates():
    for address in ("127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/run/a"):
        assert parse(["--admin-listen", address]).admin_listen == (address,)
    tls = ["--tls-key", "k.pem", "--tls-certificate", "c.pem", "--tls-client-ca", "a.pem"]
    for guard in (["--tokens-file", "t"], tls):
        parse(["--admin-listen", "0.0.0.0:1", *guard])


def test_addresses_beyond_this_machine_are_named_unless_tls_and_known_callers_guard_them():
    beyond = {"listen": ["0.0.0.0:1", "127.0.0.1:1"], "http_listen": "gpu-node:2"}
    keys = {"tls_key": "k.pem", "tls_certificate": "c.pem"}
    tls, callers = "--tls-certificate and --tls-key", "--tokens-file or --tls-client-ca"
    assert Settings(listen=["127.0.0.1:1", "unix:/a"]).unguarded() is None
    assert Settings(**beyond).unguarded() == {
        "addresses": ["0.0.0.0:1", "gpu-node:2"],
        "missing": [tls, callers],
    }
    assert Settings(**beyond, tokens_file="t").unguarded()["missing"] == [tls]
    assert Settings(**beyond, **keys).unguarded()["missing"] == [callers]
    assert Settings(**beyond, **keys, tokens_file="t").unguarded() is None


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("batch_pionts: 1", "batch_pionts"),
        ("listen: 5", "--listen"),
        ("listen: [5]", "--listen"),
        ("listen: []", "--listen"),
        ("device: []", "--device"),
    ],
)
def test_a_key_or_value_of_the_file_that_is_wrong_is_named(capsys, tmp_path, line, named):
    file = tmp_path / "farpoint.yaml"
    file.write_text(line)
    with pytest.raises(SystemExit):
        parse(["--config", str(file)])
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"listen: [a", "not YAML: while parsing"),
        (b"- 1\n", "expected keys and values, got a list"),
        (b"\xff\xfe\x00", "not YAML"),
        (None, "Is a directory"),
    ],
)
def test_a_file_that_is_no_mapping_is_one_line(monkeypatch, capsys, tmp_path, content, message):
    file = tmp_path / "farpoint.yaml"
    file.mkdir() if content is None else file.write_bytes(content)
    monkeypatch.setenv("FARPOINT_CONFIG", str(file))
    with pytest.raises(SystemExit) as caught:
        parse([])
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"farpoint-server: --config (or FARPOINT_CONFIG) {file}: ")
    assert message in line


def test_a_variable_that_is_no_setting_is_named_without_its_value():
    given = {
        "FARPOINT_LISTEN": "a:1",
        "farpoint_device": "cpu",
        "FARPOINT_TOKEN": "t",
        "FARPOINT_PORT_50051_TCP_ADDR": "10.0.0.1",
        "FARPOINT_SERVICE_HOST": "10.0.0.1",
        "FARPOINT_LISTN": "secret",
        "FARPOINT_XYZZY": "1",
        "PATH": "/bin",
    }
    assert unknown_variables(given) == [
        "FARPOINT_LISTN (perhaps FARPOINT_LISTEN)",
        "FARPOINT_XYZZY",
    ]


def test_help_has_every_setting_with_its_default_and_variable(capsys):
    with pytest.raises(SystemExit):
        parse(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')} " in text
        assert f"env: FARPOINT_{name.upper()}]" in text
        assert field.description
        assert " ".join(field.description.split()) in text


def test_one_request_may_be_as_large_as_all_together():
    Settings(max_request_points=7, max_points_in_flight=7)


def test_the_default_model_is_loaded_unless_set_otherwise(monkeypatch):
    assert parse([]).encoder == ("default",)
    assert parse(["--encoder", "none"]).encoder == ()
    assert parse(["--encoder", "a=/x", "--encoder", "default"]).encoder == ("a=/x", "default")
    monkeypatch.setenv("FARPOINT_ENCODER", "default, b=/y")
    assert parse([]).encoder == ("default", "b=/y")
    assert parse(["--model", "a=/x", "--model", "b=/x"]).model == ("a=/x", "b=/x")


@pytest.mark.parametrize("wrong", ["/x", "a=", "=/x", ""])
@pytest.mark.parametrize(
    ("flag", "expected"), [("--encoder", "NAME=PATH, default or none"), ("--model", "NAME=PATH")]
)
def test_a_model_without_a_name_or_a_path_is_named(capsys, flag, expected, wrong):
    with pytest.raises(SystemExit):
        parse([flag, wrong])
    assert f"expected {expected}, got {wrong!r}" in capsys.readouterr().err


NUMBERS = [
    name
    for name, field in Settings.model_fields.items()
    if {int, float} & {field.annotation, *get_args(field.annotation)} or name == "processes"
]


@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_is_negative(name):
    with pytest.raises(ValidationError, match=name):
        Settings(**{name: -1})


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (2, 1), (5, 2), (200, 16)])
def test_auto_is_one_process_for_two_cores(monkeypatch, cores, expected):
    monkeypatch.setattr("os.sched_getaffinity", {0: range(cores)}.get)  # 0 is this process
    assert Settings(processes="auto").process_count == expected
    assert Settings(processes=3).process_count == 3


@pytest.mark.parametrize("settings", [{"listen": ["unix:/a"]}, {"shared_memory_listen": "unix:/a"}])
def test_what_processes_cannot_share_is_refused_by_name(settings):
    with pytest.raises(ValueError, match=r"processes \(2\): expected addresses HOST:PORT.*unix:/a"):
        Settings(processes=2, **settings)
    Settings(processes=1, **settings)


def test_every_setting_is_read_outside_of_config():
    package = Path(farpoint_server.__file__).parent
    code = "".join(
        path.read_text() for path in package.rglob("*.py") if path.parent.name != "config"
    )
    read = set(re.findall(r"\w+", code))
    assert {name for name in Settings.model_fields if name not in read} == set()
