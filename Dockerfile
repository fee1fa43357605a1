# syntax=docker/dockerfile:1
# Two targets; `make image IMAGE=cpu|cuda` builds them with pinned bases and labels:
#   docker build --target cpu -t farpoint-server:cpu .
#   docker build --target cuda -t farpoint-server:cuda .
# Both bases must be the same distribution: the virtual environment is copied from one to the other.
ARG BASE=ubuntu:24.04
ARG CUDA_BASE=nvidia/cuda:13.0.1-devel-ubuntu24.04
# Of the packages; there is no .git here to ask.
ARG VERSION=0.0.0

FROM scratch AS manifests
COPY constraints.txt deploy/image/install.sh /
COPY client/pyproject.toml /client/
COPY server/pyproject.toml /server/

FROM scratch AS ops
COPY pyproject.toml setup.py MANIFEST.in LICENSE THIRD_PARTY.md /
COPY ops /ops
COPY csrc /csrc
COPY tools/native /tools/native

FROM scratch AS sources
COPY client /client
COPY server /server

FROM ${BASE} AS dependencies-cpu
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
WORKDIR /src
COPY --from=manifests / ./
RUN --mount=type=cache,target=/root/.cache/pip ./install.sh dependencies

FROM dependencies-cpu AS packages-cpu
ARG MAX_JOBS=4
ENV FARPOINT_CUDA=0
COPY --from=ops / ./
RUN ./install.sh ops
ARG VERSION
COPY --from=sources / ./
RUN ./install.sh packages

FROM ${CUDA_BASE} AS dependencies-cuda
# PyPI's torch 2.13 is built for CUDA 13.0 and brings CUDA's libraries along.
ARG TORCH_INDEX_URL=
WORKDIR /src
COPY --from=manifests / ./
RUN --mount=type=cache,target=/root/.cache/pip ./install.sh dependencies

FROM dependencies-cuda AS packages-cuda
# Named, because a build machine has no GPU to ask.
ARG TORCH_CUDA_ARCH_LIST="8.0;8.6;8.9;9.0;10.0;12.0+PTX"
ARG MAX_JOBS=4
ENV FARPOINT_CUDA=1
COPY --from=ops / ./
RUN ./install.sh ops
ARG VERSION
COPY --from=sources / ./
RUN ./install.sh packages

FROM ${BASE} AS runtime
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends libgomp1 python3 tini \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin farpoint
LABEL org.opencontainers.image.title="farpoint-server" \
      org.opencontainers.image.description="Exact point cloud sampling, served over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/app/bin:/opt/farpoint/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    FARPOINT_LISTEN=0.0.0.0:50051 \
    FARPOINT_HTTP_LISTEN=0.0.0.0:8080 \
    FARPOINT_PROBE_LISTEN=127.0.0.1:8081
USER 10001:10001
# gRPC; HTTP with the page and /metrics.
EXPOSE 50051 8080
STOPSIGNAL SIGTERM
# The probe port is plain HTTP whatever the others are, so this holds with TLS and tokens too.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python3", "-Ic", "import os, urllib.request as request; request.urlopen(f\"http://{os.environ['FARPOINT_PROBE_LISTEN']}/readyz\", timeout=4)"]
ENTRYPOINT ["tini", "--", "farpoint-server"]

FROM runtime AS cpu
COPY --from=dependencies-cpu /opt/farpoint /opt/farpoint
COPY --from=packages-cpu /opt/app /opt/app

FROM runtime AS cuda
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=dependencies-cuda /opt/farpoint /opt/farpoint
COPY --from=packages-cuda /opt/app /opt/app
