"""What Ray Serve is asked for, from the settings and what the cluster has."""

import pytest
from pydantic import ValidationError

from farpoint_server.config import cli
from farpoint_server.config.ray import RaySettings
from farpoint_server.ray_serve.deployment import options_of


def options(resources=None, **settings):
    return options_of(RaySettings(**settings), resources or {"CPU": 16.0})


def test_replicas_fill_the_cores_unless_there_is_a_number():
    scaling = options(ray_replica_cpus=3, ray_target_requests=4)["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (1, 5)
    assert scaling["target_ongoing_requests"] == 4
    scaling = options(ray_min_replicas=2, ray_max_replicas=9)["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (2, 9)
    assert options({"CPU": 1.0}, ray_min_replicas=3)["autoscaling_config"]["max_replicas"] == 3


@pytest.mark.parametrize(
    ("settings", "resources", "gpus", "most"),
    [
        ({"device": ("cpu",)}, {"CPU": 16, "GPU": 4}, 0, 8),
        ({"device": ("auto",)}, {"CPU": 16, "GPU": 4}, 1, 4),
        ({"device": ("auto",)}, {"CPU": 16}, 0, 8),
        ({"device": ("cuda:0",)}, {"CPU": 16}, 1, 1),
        ({"device": ("cuda",), "ray_replica_gpus": 0.25}, {"CPU": 64, "GPU": 2}, 0.25, 8),
    ],
)
def test_each_replica_has_a_gpu_where_it_samples_on_one(settings, resources, gpus, most):
    found = options(resources, **settings)
    assert found["ray_actor_options"] == {"num_cpus": 2, "num_gpus": gpus}
    assert found["autoscaling_config"]["max_replicas"] == most


def test_a_replica_has_as_many_threads_as_cores_and_no_port():
    settings = RaySettings(ray_replica_cpus=3, listen=("127.0.0.1:0",)).of_replica(False)
    assert settings.cpu_threads == 3
    assert settings.listen == ()
    assert RaySettings(ray_replica_cpus=3, cpu_threads=1).of_replica(False).cpu_threads == 1


def test_a_replica_takes_a_gpu_that_ray_gave_it_and_no_other():
    assert RaySettings(device=("auto",)).of_replica(has_gpu=True).device == ("cuda:0",)
    assert RaySettings(device=("auto",)).of_replica(has_gpu=False).device == ("cpu",)
    assert RaySettings(device=("cuda:1",)).of_replica(has_gpu=True).device == ("cuda:1",)


def test_a_replica_has_time_to_drain():
    found = options(drain_grace_s=1, drain_timeout_s=40)
    assert found["graceful_shutdown_timeout_s"] == 41


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tls_certificate": "a.pem", "tls_key": "b.pem"}, "tls_certificate has no effect"),
        ({"admin_listen": "127.0.0.1:1"}, "admin_listen has no effect"),
        ({"http_listen": "127.0.0.1:80"}, "expected HOST:0, got '127.0.0.1:80'"),
        ({"ray_min_replicas": 3, "ray_max_replicas": 2}, r"\(2\) is below ray_min_replicas \(3\)"),
    ],
)
def test_what_ray_does_not_do_is_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        RaySettings(**settings)


def test_flags_of_ray_are_for_its_command_alone(capsys):
    flags = ["--ray-max-replicas", "7", "--batch-points", "5"]
    settings = cli.parse(flags, RaySettings, "farpoint-server ray")
    assert (settings.ray_max_replicas, settings.batch_points) == (7, 5)
    with pytest.raises(SystemExit):
        cli.parse(flags)
    assert "--ray-max-replicas" in capsys.readouterr().err
    assert cli.unknown_variables({"FARPOINT_RAY_PORT": "1"}) == []
