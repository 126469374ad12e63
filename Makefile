# Everything a newcomer needs: `make serve` speaks, `make test` tests. Both set themselves up.

PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
PORT ?=
ARGS ?=

BIN := $(VENV)/bin
# pip installs dependency groups since 25.1.
PIP_VERSION := 26.3
TORCH_VERSION := 2.13.0
# The release made for that torch. CUDA builds of torch bring it; CPU builds do not, and the tests run the GPU kernels
# in its interpreter.
TRITON_VERSION := 3.7.1
GEPARD_TESTS := tests/workers/gepard tests/workers/nanocodec tests/benchmarks tests/workers/engines/test_gepard*.py \
    tests/gateway/test_gepard.py tests/chaos tests/cli/test_download.py tests/cli/test_doctor.py tests/cli/test_make_engine.py
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup setup-test setup-check setup-gepard setup-vllm serve generate login download doctor test test-gepard test-vllm check format constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- Setting up ------------------------------------------------------------------------------------------

setup: $(VENV)/.product ## Install the product into $(VENV)
setup-test: $(VENV)/.test ## Install what the tests need
setup-check: $(VENV)/.check ## Install the linters and the type checker
setup-gepard: $(VENV)/.gepard ## Install PyTorch, for the Gepard model (a large download where only CUDA builds are to be had)

setup-vllm: $(VLLM_VENV)/.vllm ## Install vLLM for the CPU into $(VLLM_VENV), for its tests (3.5 GB; Linux)

$(VENV)/.product: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@echo "Setting up $(VENV) (once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip==$(PIP_VERSION)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.product tests/speech-requirements.txt
	@$(INSTALL) --group test
	@$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r tests/speech-requirements.txt
	@touch $@

$(VENV)/.check: $(VENV)/.product
	@$(INSTALL) --group check
	@touch $@

$(VENV)/.gepard: $(VENV)/.product
	@$(INSTALL) "torch==$(TORCH_VERSION)" "triton==$(TRITON_VERSION); sys_platform == 'linux'" -e ".[gepard]"
	@touch $@

# torchvision and its like come as CUDA builds, and vLLM cannot be imported beside them without CUDA.
$(VLLM_VENV)/.vllm: tests/vllm-requirements.txt pyproject.toml constraints.txt
	@echo "Setting up $(VLLM_VENV) (once) ..."
	@test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/vllm-requirements.txt
	@grep -v '^numpy==' constraints.txt > $(VLLM_VENV)/constraints.txt  # vLLM wants an older one
	@$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(VLLM_VENV)/constraints.txt -e .
	@$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

# --- Using it --------------------------------------------------------------------------------------------

serve: setup ## Serve speech on 127.0.0.1:8000 (PORT=8001 for another port)
	@exec $(BIN)/gepard serve $(if $(PORT),--port $(PORT)) $(ARGS)

generate: setup ## Speak a text through a running gateway: make generate ARGS="'Hi there!' -o out.wav"
	@$(BIN)/gepard say $(ARGS)

login: setup-gepard ## Name your Hugging Face token, for repositories with terms to accept
	@$(BIN)/hf auth login

download: setup-gepard ## Fetch the weights of Gepard and its codec (1.4 GB)
	@$(BIN)/gepard download $(ARGS)

doctor: setup ## Say what is missing for which engine
	@$(BIN)/gepard doctor $(ARGS)

# --- Working on it ---------------------------------------------------------------------------------------

test: setup-test ## Run the whole test suite (ARGS="-k name" for a part of it)
	@$(BIN)/python -m pytest $(ARGS)

test-gepard: setup-gepard setup-test ## Run the tests that need PyTorch
	@$(BIN)/python -m pytest $(GEPARD_TESTS) $(ARGS)

test-vllm: setup-vllm ## Run the tests of Gepard inside vLLM, on the CPU
	@$(VLLM_VENV)/bin/python tests/support/vllm_suite.py $(ARGS)

check: setup-test setup-check ## Check format, lint, types and import arrows
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup-check ## Format and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

constraints: setup ## Resolve the exact pins anew
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --universal --python-version 3.11 pyproject.toml --extra bench --extra s3 --group test --group check \
	    --no-annotate --no-header --quiet --upgrade -o constraints.txt
	@$(BIN)/uv pip compile --python-platform x86_64-manylinux_2_28 --python-version 3.12 pyproject.toml \
	    --extra gepard --extra vllm --no-annotate --no-header --quiet --upgrade -o deploy/docker/constraints-gpu.txt

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) $(VLLM_VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
