# Every command of the project; each works as the first one, and `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
DEV := $(VENV)/.dev
PROTOS := $(wildcard proto/farpoint/v1/*.proto)
CLOUD ?=
T ?=
STAY ?=
TORCH ?=
IMAGE ?= cpu
STAGES ?=
# Kernels and the GPU path, where `make gpu-soft` has been run; CI runs it where nvcc is.
SOFTGPU = @if test -e build/softgpu/installed || { test -n "$$CI" && command -v nvcc > /dev/null; }; then \
	$(MAKE) -s gpu-soft STAGES=quick; \
	else echo "No GPU path was tested: make gpu-soft; 0.6 GB to fetch, 1.3 GB on disk."; fi
# open3d-cpu also wants the system's libusb-1.0, libGL and libX11; torch-cluster compiles for minutes.
PYTEST = $(BIN)/python -m pytest
# Three files at a time on two cores: most tests wait for a server process.
PARALLEL := -n 3 --dist loadfile
# The servers that tests start read compiled modules.
test test-all: export PYTHONDONTWRITEBYTECODE :=
PEERS := fpsample torch-quickfps pykdtree threadpoolctl open3d-cpu
# Compiling one torch file takes about a gigabyte; two at a time suit a small machine.
export MAX_JOBS ?= 2
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help demo test test-all dev ext proto web check bench soak wheels release image image-test
.PHONY: docs gpu-check gpu-soft serve clean

help:  ## This list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ext  ## Start a server, sample a scan through the client, show the result, stop; STAY=1 keeps it running.
	$(BIN)/python examples/demo.py $(if $(CLOUD),'$(CLOUD)') $(if $(STAY),--stay)

test: dev ext  ## Set everything up and run the tests but the slow ones; T=tests/server/codec runs one folder.
	REQUIRE_TEST_TOOLS=$$(tools/install_test_tools.sh) $(PYTEST) $(if $(T),'$(T)',$(PARALLEL) -m 'not slow')
	$(if $(T),,$(SOFTGPU))

test-all: dev ext  ## Every test, the slow ones and long fuzzing too.
	FARPOINT_FUZZ=$${FARPOINT_FUZZ:-100000} REQUIRE_TEST_TOOLS=$$(tools/install_test_tools.sh) $(PYTEST) $(PARALLEL)

dev: $(DEV)  ## The virtual environment with every package, editable.

ext: $(RUN)  ## The compiled ops; ninja builds only what changed, or all of it for another torch.
	@mkdir -p build && echo "Compiling the ops where they changed."
	@$(BIN)/python setup.py -q build_ext --inplace > build/ext.log 2>&1 || { cat build/ext.log; exit 1; }

serve: export FARPOINT_HTTP_LISTEN ?= 127.0.0.1:8080
serve: ext  ## A server on the default address, and its page at http://127.0.0.1:8080/.
	@echo "The page is at http://$(FARPOINT_HTTP_LISTEN)/ once the log says ready."
	@$(BIN)/farpoint-server

proto: dev  ## Generated code from proto/.
	tools/proto.sh

web: dev  ## The page's bundle from web/; needs Node.
	tools/web.sh

check: dev ext  ## Formatters, linters, types, layers, generated code, every CUDA kernel.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'csrc/*.cpp' 'csrc/*.h' 'csrc/*.cu' 'csrc/*.cuh')
	tools/proto.sh --check
	tools/web.sh --check
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/python tools/check_cuda.py

bench: dev ext  ## Every benchmark that needs no GPU, against the peers that install here.
	-for peer in $(PEERS); do $(BIN)/python -m pip install -q -c constraints.txt $$peer; done
	-DIST_EXTRA_CONFIG=$(CURDIR)/benchmarks/peers.cfg $(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation torch-cluster
	$(BIN)/python -m benchmarks.ops
	$(BIN)/python -m benchmarks.service.memory
	$(BIN)/python -m benchmarks.service

soak: dev ext  ## Ten minutes of mixed calls and faults, every answer checked.
	$(BIN)/python -m benchmarks.soak

wheels: dev  ## Wheels and sources of farpoint, farpoint-ops and farpoint-server in dist/, tested with every torch.
	rm -rf dist
	$(BIN)/python -m build -o dist --no-isolation client
	$(BIN)/python -m build -o dist --no-isolation server
	$(BIN)/python tools/wheels.py $(TORCH)
	$(BIN)/twine check --strict dist/*

release: wheels  ## The same, then the demo from those wheels alone; TORCH='2.11.0 2.13.0' limits both.
	$(BIN)/python tools/prove_release.py $(TORCH)

image: dev  ## Image of IMAGE=cpu|cuda with docker, podman or buildah.
	$(BIN)/python tools/image/build.py $(IMAGE) $(IMAGE_FLAGS)

image-test: dev  ## The same on a base of Debian's packages, run by podman and tested; needs root.
	PYTHON=$(BIN)/python tools/image/test.sh $(IMAGE)

docs: $(VENV)/.docs  ## The site of docs/ with every reference, its links checked, in build/docs/.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

gpu-check:  ## All that needs a GPU, with `python3` as it stands: no virtual environment, no network.
	tools/gpu_check.sh

gpu-soft: dev ext  ## The GPU path on a software CUDA runtime, under torch's CUDA build: fetches 0.6 GB.
	@$(BIN)/python tools/softgpu/environment.py > build/softgpu.log 2>&1 || { cat build/softgpu.log; exit 1; }
	$(BIN)/python tools/softgpu/check.py $(STAGES)

clean:  ## Removes all that the others made.
	rm -rf $(VENV) build dist demo ops/farpoint_ops/lib

$(VENV)/.docs: $(DEV)
	FARPOINT_SKIP_EXTENSION=1 $(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation -e '.[docs]'
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml server/pyproject.toml client/pyproject.toml training/pyproject.toml constraints.txt setup.py server/setup.py | $(BIN)/python
	@tools/install.sh run
	@touch $@

$(DEV): $(RUN)
	@tools/install.sh dev
	@touch $@

