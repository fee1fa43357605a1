# syntax=docker/dockerfile:1
# For NVIDIA GPUs as it stands. For a CPU:
#   docker build -t farpoint-server:cpu . \
#     --build-arg BUILD_BASE=ubuntu:24.04 \
#     --build-arg TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
#
# Both bases must be the same distribution: the virtual environment is copied from one to the other.
ARG BUILD_BASE=nvidia/cuda:13.0.1-devel-ubuntu24.04
ARG RUNTIME_BASE=ubuntu:24.04

FROM ${BUILD_BASE} AS build
# PyPI's torch 2.13 is built for CUDA 13.0 and brings CUDA's libraries along.
ARG TORCH_INDEX_URL=https://pypi.org/simple
# Named, because a build machine has no card to ask.
ARG TORCH_CUDA_ARCH_LIST="8.0;8.6;8.9;9.0;10.0;12.0+PTX"
ARG MAX_JOBS=4
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/farpoint
ENV PATH=/opt/farpoint/bin:${PATH}
WORKDIR /src
COPY constraints.txt ./
# hadolint ignore=DL3042
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install -c constraints.txt --index-url "${TORCH_INDEX_URL}" torch \
 && pip install -c constraints.txt numpy 'setuptools>=77' wheel ninja
COPY pyproject.toml setup.py MANIFEST.in LICENSE ./
COPY client client
COPY ops ops
COPY server server
COPY csrc csrc
COPY tools/native tools/native
# hadolint ignore=DL3042
RUN --mount=type=cache,target=/root/.cache/pip \
    export FARPOINT_CUDA="$(if command -v nvcc > /dev/null; then echo 1; else echo 0; fi)" \
 && pip wheel --no-build-isolation --no-deps -w /wheels ./client . ./server \
 && pip install -c constraints.txt /wheels/*.whl \
 && pip uninstall -y ninja wheel

FROM ${RUNTIME_BASE}
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends libgomp1 python3 tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin farpoint
COPY --from=build /opt/farpoint /opt/farpoint
ENV PATH=/opt/farpoint/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    FARPOINT_LISTEN=0.0.0.0:50051
USER 10001:10001
EXPOSE 50051
STOPSIGNAL SIGTERM
# FARPOINT_SERVER says where to ask, for a server that listens elsewhere.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["farpoint", "health"]
ENTRYPOINT ["tini", "--", "farpoint-server"]
