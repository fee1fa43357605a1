#!/usr/bin/env bash
# All that needs a GPU, in one command of under ten minutes: builds the extension in place with the
# python3 that holds a CUDA torch, runs the op tests on the device, measures, and looks for bad
# memory accesses and races in small cases of every kernel. Needs no network and no virtual
# environment.
#
# Stages stand in the order of their worth, each in processes of its own and with a time limit, so
# that a failed, hung or crashed one hides no other. benchmarks/results/gpu_check holds the output
# of each stage and stages.jsonl with their exit codes; measurements go to
# benchmarks/results/cuda_<device>.json after every section. After the build, STAGES="sampling bench"
# runs only the stages that are named so up to a "_".
set -uo pipefail
cd "$(dirname "$0")/.."
PATH=${PATH//"$PWD/.venv/bin:"/}  # where `make` looks first, and where torch is a CPU build
python=${PYTHON:-python3}
export PYTHONPATH="$PWD/ops:$PWD/server:$PWD/client/src:$PWD/training${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
export MAX_JOBS=${GPU_CHECK_JOBS:-$(nproc)}
ends=$((SECONDS + ${GPU_CHECK_SECONDS:-560}))
logs=benchmarks/results/gpu_check
rm -rf "$logs" && mkdir -p "$logs"
failed=()

record() {  # stage, exit code, seconds
  printf '{"stage": "%s", "exit": %d, "seconds": %d}\n' "$@" | tee -a "$logs/stages.jsonl"
}

wanted() {  # stage
  [[ -z ${STAGES:-} || " device build built $STAGES " =~ " "($1|${1%%_*})" " ]]
}

# stage NAME SECONDS COMMAND...: exit code 124 or 137 means that the time was up, 125 that none was left.
stage() {
  local name=$1 limit=$2 begun=$SECONDS code=125
  shift 2
  wanted "$name" || return 0
  ((limit > ends - begun)) && limit=$((ends - begun))
  echo "== $name"
  if ((limit > 4)); then
    timeout -k 5 "$limit" "$@" 2>&1 | tee "$logs/$name.log"
    code=${PIPESTATUS[0]}
  fi
  record "$name" "$code" $((SECONDS - begun))
  ((code == 0)) || failed+=("$name")
  return "$code"
}

# The op tests need pytest and hypothesis alone; the settings of other plugins are unknown here, and
# the warnings of another torch are no failures. A test that hangs shows where it does.
pytest=("$python" -m pytest -q -p no:cacheprovider -o addopts=--import-mode=importlib -o timeout=0
        -o filterwarnings=default -o faulthandler_timeout=90 --durations=5
        --continue-on-collection-errors)
# The op tests spend most of their time on the CPU.
beside=()
"$python" -c "import xdist" 2> /dev/null && beside=(-n 4)
kernel_tests=tests/ops/cuda

stage device 60 "$python" tools/gpu_device.py || exit 1
stage build 300 "$python" setup.py -q build_ext --inplace
stage built 60 "$python" tools/gpu_device.py --kernels || exit 1

# An illegal access spoils the rest of its process, so a failure is looked at kernel by kernel.
if ! stage sampling 150 "${pytest[@]}" "${beside[@]}" "$kernel_tests"; then
  for kernel in grid block tree partitioned; do
    stage "sampling_$kernel" 40 "${pytest[@]}" "$kernel_tests" -k "$kernel"
  done
fi
for section in scatters gathers searches; do
  stage "bench_$section" 40 "$python" -m benchmarks.cuda "$section" --seconds 35
done
stage bench_methods 150 "$python" -m benchmarks.cuda methods --seconds 135
# Only the variants on the device; the CPU ones run in `make test`. test_load.py asks for a
# farpoint-ops that is installed.
ops_tests=(tests/ops --ignore "$kernel_tests" --ignore tests/ops/test_load.py)
stage ops 120 "${pytest[@]}" "${beside[@]}" "${ops_tests[@]}" -k "cuda and not aot_inductor"
stage memory 90 "${pytest[@]}" tests/gpu/test_memory.py
# What imports the server's libraries; without them the stages have the exit code 127.
libraries="grpc_health, grpc_reflection, google.rpc, google_crc32c, prometheus_client"
libraries+=", pydantic_settings, safetensors, starlette, structlog, uvicorn, yaml"
libraries+=", pytest_asyncio, xdist, trustme, tritonclient.grpc"
if ! { wanted memory_server || wanted server; } || "$python" -c "import $libraries"; then
  stage memory_server 90 "${pytest[@]}" -s tests/gpu/test_staging.py tests/gpu/test_graphs.py tests/server/compute/memory
  # Servers on the device, six at a time: most of the time one starts, or waits for its client.
  # An index out of range inside a program is an assertion of the device, which is lost.
  FARPOINT_TEST_DEVICE=cuda:0 stage server 150 "${pytest[@]}" -n 6 --dist loadfile -o timeout=100 \
    @tools/server_tests.txt -k "not (wrong_request and points3)"
else
  for name in memory_server server; do
    ! wanted "$name" || record "$name" 127 0
  done
fi
if command -v compute-sanitizer > /dev/null; then
  # Without torch's cache every tensor is an allocation whose bounds are known. Torch itself asks
  # for things that a driver may refuse.
  export PYTORCH_NO_CUDA_MEMORY_CACHING=1
  for tool in memcheck racecheck; do
    stage "$tool" 100 compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 1 \
      "${pytest[@]}" "$kernel_tests" -k "small or every_kernel"
  done
  unset PYTORCH_NO_CUDA_MEMORY_CACHING
else
  record compute-sanitizer 127 0
fi
stage bench_batches 60 "$python" -m benchmarks.cuda batches --seconds 50
# AOTInductor compiles with the machine's g++ for more than a minute.
stage aot 150 "${pytest[@]}" "${ops_tests[@]}" -k "cuda and aot_inductor"

echo "== results in benchmarks/results"
((${#failed[@]} == 0)) || { echo "gpu-check: failed: ${failed[*]}"; exit 1; }
