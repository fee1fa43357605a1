"""The allocator's environment: exactly one variable, and nothing that frees memory in a batch."""

import pytest

from farpoint_server.memory import environment

NEW, OLD = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


def test_what_is_chosen_is_one_variable():
    environ = {"PATH": "/bin"}
    value = environment.settle(environ, expandable=False)
    assert environ == {"PATH": "/bin", NEW: value}
    options = environment.parse(value)
    assert not environment.is_expandable(options)
    assert not options.keys() & environment.FORBIDDEN.keys()


@pytest.mark.parametrize("name", [NEW, OLD])
def test_the_operator_wins_under_either_name(name):
    environ = {name: "roundup_power2_divisions:[256:1,>:4], expandable_segments:True"}
    options = environment.parse(environment.settle(environ, expandable=False))
    assert list(environ) == [NEW]
    assert options["roundup_power2_divisions"] == "[256:1,>:4]"
    assert environment.is_expandable(options)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({NEW: "a:1", OLD: "b:1"}, f"set {NEW} alone, got {NEW} and {OLD}"),
        ({OLD: "max_split_size_mb:64"}, f"{OLD}: leave max_split_size_mb unset"),
        ({NEW: "x:1,garbage_collection_threshold:0.8"}, "garbage_collection_threshold"),
        ({NEW: "backend:cudaMallocAsync"}, "leave backend native"),
    ],
)
def test_what_the_promise_cannot_stand_is_refused(environ, said):
    with pytest.raises(environment.AllocatorOptionError, match=said):
        environment.settle(environ, expandable=False)
