#!/bin/bash
# What the two targets of the Dockerfile share: install.sh dependencies|ops|packages, in this order.
# pip lives in an environment of its own, so it is in neither of the folders that the image gets.
set -euo pipefail
tools=/opt/build environment=/opt/farpoint app=/opt/app
pip() { "$tools/bin/pip" "$@" -c constraints.txt --disable-pip-version-check; }
install() { pip --python "$environment/bin/python" install "$@"; }

# torch and the packages' dependencies: a large layer that seldom changes.
dependencies() {
  apt-get update
  apt-get install -y --no-install-recommends g++ python3-venv
  python3 -m venv "$tools"
  pip install 'setuptools>=77' 'setuptools-scm>=8' wheel ninja
  python3 -m venv --without-pip "$environment"
  # Without TORCH_INDEX_URL it is PyPI's torch, which brings CUDA's libraries along.
  install ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch
  python3 - > /tmp/requirements.txt << 'PYTHON'
import tomllib

for folder in ("client", "server"):
    with open(f"{folder}/pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    tracing = project["optional-dependencies"].get("tracing", [])
    print(*(d for d in project["dependencies"] + tracing if not d.startswith("farpoint")), sep="\n")
PYTHON
  install -r /tmp/requirements.txt
  # torch names these for compiling extensions and models, which a server does not.
  "$tools/bin/pip" --python "$environment/bin/python" uninstall -y setuptools triton cuda-bindings
  site=$(echo "$environment"/lib/python3*/site-packages)
  echo "$app" > "$site/app.pth"
  # Headers are for the build alone; `ops` has them back.
  mv "$site/torch/include" /opt/include
  # Tests, test programs and symbols: 200 MB that no server uses.
  find "$site" -depth -type d \( -name tests -o -path "$site/torch/test" \) -exec rm -r {} +
  find "$site/torch/bin" -type f ! -name torch_shm_manager -delete
  strip --strip-unneeded "$site"/torch/lib/libtorch*.so
  [ ! -d "$site/nvidia" ] || trim_cuda
}

# What of CUDA is for other programs: headers, profilers, and libraries that nothing links. torch links
# those of several GPUs, 2:4 sparsity and random numbers: stand-ins return an error, which torch raises.
trim_cuda() {
  find "$site/nvidia" -type f \( -name '*.a' -o -name '*.bc' -o -name '*.h' -o -name 'nvshmem_*' \
    -o -name 'libcusolverMg*' -o -name 'libnvrtc*.alt.*' -o -name 'libnvperf_*' \) -delete
  for name in nccl cusparseLt curand; do
    library=$(echo "$site"/nvidia/*/lib/lib"$name".so.*)
    nm -D --undefined-only "$site"/torch/lib/*.so | sed -n "s/^ *U \($name.*\)/int \1(void) { return 1; }/p" \
      | sort -u | gcc -shared -fPIC -x c - -Wl,-soname,"${library##*/}" -o "$library"
  done
}

# What is compiled, which takes minutes and is the same for every version.
ops() {
  mv /opt/include "$FARPOINT_TORCH/include"
  SETUPTOOLS_SCM_PRETEND_VERSION=0 "$tools/bin/python" setup.py -q build_ext
}

# farpoint, farpoint-ops and farpoint-server, in a folder of their own: megabytes that change often.
packages() {
  export SETUPTOOLS_SCM_PRETEND_VERSION=$VERSION
  pip wheel --no-build-isolation --no-deps -w "$tools/wheels" . ./client ./server
  install --no-deps --target "$app" "$tools/wheels"/*.whl
}

FARPOINT_TORCH=$(echo "$environment"/lib/python3*/site-packages/torch)
export FARPOINT_TORCH FARPOINT_BUILD=/opt/native PATH="$tools/bin:$PATH"
"$1"
