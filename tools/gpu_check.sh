#!/usr/bin/env bash
# All that needs a GPU, in one command of under ten minutes: builds the extension in place with the
# python3 that holds a CUDA torch, runs the op tests on the device, looks for bad memory accesses and
# races in small cases of every kernel, and measures. Needs no network and no virtual environment.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=${PATH//"$PWD/.venv/bin:"/}  # where `make` looks first, and where torch is a CPU build
python=${PYTHON:-python3}
export PYTHONPATH="$PWD/server:$PWD/client/src${PYTHONPATH:+:$PYTHONPATH}"
export MAX_JOBS=${GPU_CHECK_JOBS:-$(nproc)}

"$python" - <<'PROGRAM'
try:
    import torch
    found = torch.cuda.is_available()
except ModuleNotFoundError:
    found = False
if not found:
    raise SystemExit("gpu-check: this python3 has no torch that sees a CUDA device")
print(torch.__version__, torch.cuda.get_device_name())
PROGRAM
"$python" setup.py -q build_ext --inplace

# The op tests need pytest and hypothesis alone; the settings of other plugins are unknown here.
pytest=("$python" -m pytest -q -o addopts=--import-mode=importlib -o timeout=0
        -W ignore::pytest.PytestConfigWarning)
"${pytest[@]}" tests/ops
"${pytest[@]}" -s tests/gpu tests/server/memory

if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "${pytest[@]}" tests/ops/test_cuda_device.py -k small
  done
else
  echo "gpu-check: no compute-sanitizer, memory and race checks left out"
fi

"$python" benchmarks/bench_cuda.py "$@"
