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
  # torch names setuptools for compiling extensions, which a server does not.
  "$tools/bin/pip" --python "$environment/bin/python" uninstall -y setuptools
  site=$(echo "$environment"/lib/python3*/site-packages)
  echo "$app" > "$site/app.pth"
  # Headers are for the build alone; `ops` has them back.
  mv "$site/torch/include" /opt/include
  # Tests, test programs and symbols: 200 MB that no server uses.
  find "$site" -depth -type d \( -name tests -o -path "$site/torch/test" \) -exec rm -r {} +
  find "$site/torch/bin" -type f ! -name torch_shm_manager -delete
  strip --strip-unneeded "$site"/torch/lib/libtorch*.so
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
