#!/usr/bin/env bash
# Install into .venv what its argument names: `run`, the packages and what they import, or `dev`, the
# tools of tests and checks on top. uv is used where it can be installed, since it takes a third of
# pip's time. Without an NVIDIA driver torch is its CPU build where uv can reach it; PyPI's own build
# for Linux brings gigabytes of CUDA libraries.
set -euo pipefail
python=.venv/bin/python
export FARPOINT_SKIP_EXTENSION=1 # `make ext` compiles

has_uv() { "$python" -m uv --version > /dev/null 2>&1; }
install() {
  if has_uv; then
    "$python" -m uv pip install -q --python "$python" -c constraints.txt "$@"
  else
    "$python" -m pip install -q -c constraints.txt "$@"
  fi
}
install_torch() {
  "$python" -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("torch"))' && return
  if ! command -v nvidia-smi > /dev/null; then
    has_uv && UV_HTTP_RETRIES=0 UV_TORCH_BACKEND=cpu install torch numpy 2> /dev/null && return
    echo "    no index of torch's CPU builds: PyPI's build may bring gigabytes of CUDA libraries"
  fi
  "$python" -m pip install -q -c constraints.txt torch numpy
}
# Kernels know no torch: they compile while it is downloaded.
compile_kernels() {
  "$python" -c 'import sys; sys.path.insert(0, "tools")
from pathlib import Path; from native.graph import build_libraries
build_libraries([], Path("build/native"))' > build/kernels.log 2>&1 || true # `make ext` shows why
}

if [ "$1" = run ]; then
  echo "Setting up .venv and the compiled ops, once: two minutes, 1.5 GB of disk;"
  echo "with an NVIDIA driver several GB more, for torch's CUDA libraries."
  has_uv || "$python" -m pip install -q uv || true
  echo "1/3 build tools"
  install 'setuptools>=77' 'setuptools-scm>=8' wheel ninja
  echo "2/3 torch, and the kernels at the same time"
  mkdir -p build
  compile_kernels &
  install_torch
  echo "3/3 client and server"
  install --no-build-isolation -e 'client[las]' -e . -e server -e training 'matplotlib>=3.8'
  wait
else
  echo "Adding the tools of tests and checks to .venv."
  install --no-build-isolation -e 'client[io]' -e '.[dev]' -e 'server[tracing]'
fi
