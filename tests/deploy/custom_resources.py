"""Checks of custom resources, written by hand: no package of PyPI carries their schemas.

Each has the fields that the files of `deploy` use, and no others, with their types as of
prometheus-operator 0.8x, KEDA 2 and KServe 0.1x. They find misspelt names and wrong types, not what
an operator would refuse.
"""

from typing import Any

import jsonschema

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
STRINGS = {"type": "object", "additionalProperties": STRING}


def _object(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1}


SECRET_KEY = _object(("name", "key"), name=STRING, key=STRING)
SPECS = {
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _object(
        ("selector", "endpoints"),
        selector=_object(matchLabels=STRINGS),
        endpoints=_list(
            _object(
                port=STRING,
                interval=STRING,
                scheme={"enum": ["http", "https"]},
                tlsConfig=_object(serverName=STRING, ca=_object(secret=SECRET_KEY)),
            )
        ),
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): _object(
        groups=_list(
            _object(
                ("name",),
                name=STRING,
                rules=_list(
                    _object(
                        ("alert", "expr"),
                        alert=STRING,
                        expr=STRING,
                        labels=STRINGS,
                        annotations=STRINGS,
                        **{"for": STRING},
                    )
                ),
            )
        )
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): _object(
        ("scaleTargetRef", "triggers"),
        scaleTargetRef=_object(("name",), name=STRING),
        minReplicaCount=INTEGER,
        maxReplicaCount=INTEGER,
        triggers=_list(
            _object(
                ("type", "metadata"),
                type={"const": "prometheus"},
                metricType={"enum": ["AverageValue", "Value"]},
                metadata=STRINGS,
            )
        ),
    ),
    ("serving.kserve.io/v1alpha1", "ServingRuntime"): _object(
        ("containers",),
        annotations=STRINGS,
        supportedModelFormats=_list(
            _object(("name",), name=STRING, version=STRING, autoSelect={"type": "boolean"})
        ),
        protocolVersions=_list({"enum": ["v1", "v2", "grpc-v1", "grpc-v2"]}),
        containers=_list({"type": "object"}),  # as in a pod, whose schema they are held to
        volumes=_list({"type": "object"}),
    ),
    ("serving.kserve.io/v1beta1", "InferenceService"): _object(
        ("predictor",),
        predictor=_object(
            ("model",),
            minReplicas=INTEGER,
            terminationGracePeriodSeconds=INTEGER,
            automountServiceAccountToken={"type": "boolean"},
            enableServiceLinks={"type": "boolean"},
            model=_object(
                ("modelFormat",),
                modelFormat=_object(("name",), name=STRING, version=STRING),
                runtime=STRING,
                protocolVersion={"enum": ["v1", "v2", "grpc-v1", "grpc-v2"]},
            ),
        ),
    ),
}


def check(resource: dict[str, Any]) -> None:
    """Raises `jsonschema.ValidationError` where a custom resource is not as it should be."""
    spec = SPECS[resource["apiVersion"], resource["kind"]]
    jsonschema.validate(resource["spec"], spec)
