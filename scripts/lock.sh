#!/usr/bin/env bash
# Writes, from pyproject.toml: requirements.txt (running and testing), requirements-bench.txt,
# requirements-clients.txt and requirements-console.txt (what `make bench`, `make clients` and
# `make test-console` add), requirements-pipeline.txt (what a node and the extra `spark` need),
# requirements-bench-pipeline.txt (what `make bench-pipeline` adds to that), requirements-node.txt (what a node
# needs) and requirements-build.txt (what builds its wheel): exact versions with the hashes of every file a
# supported platform may fetch.
# uv resolves for all platforms and Python versions at once; it lives in a throw-away environment.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
"${PYTHON:-python3}" -m venv "$tool"
"$tool/bin/pip" install --quiet uv
compile() {
  "$tool/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-header --no-emit-index-url --no-emit-find-links "$@"
}
compile pyproject.toml --extra traces --group test --output-file requirements.txt
for more in bench clients console; do
  compile --group "$more" --constraint requirements.txt --output-file "requirements-$more.txt"
done
compile pyproject.toml --extra spark --constraint requirements.txt --output-file requirements-pipeline.txt
compile --group bench-pipeline --constraint requirements.txt --constraint requirements-pipeline.txt \
  --output-file requirements-bench-pipeline.txt
compile --group build --constraint requirements.txt --output-file requirements-build.txt
compile pyproject.toml --extra traces --constraint requirements.txt --output-file requirements-node.txt
