#!/usr/bin/env bash
# Reproduces every finding of 0001-raft.md in a throw-away environment; fails when one does not.
#   docs/decisions/0001/run.sh          PYTHON=python3.12 chooses another interpreter (3.10 or newer)
set -euo pipefail
cd "$(dirname "$0")"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
"${PYTHON:-python3}" -m venv "$home/venv"
python="$home/venv/bin/python"

echo "pip install raftos==0.2.6, with the dependencies that it pins:"
if "$python" -m pip install raftos==0.2.6 >"$home/pip.log" 2>&1; then
  echo "NOT REPRODUCED: it installed"
  exit 1
fi
if ! grep -q 'Collecting cryptography==1.5.3' "$home/pip.log"; then
  echo "NOT REPRODUCED: it failed for another reason"
  tail -n 5 "$home/pip.log"
  exit 1
fi
grep -E -m 1 'Error: ' "$home/pip.log" | sed 's/^ */  /'
echo "reproduced: cryptography==1.5.3, which raftos pins, cannot be built"

# Everything else is shown without cryptography; raftos then leaves its datagrams unencrypted.
"$python" -m pip install --quiet --no-deps --require-hashes -r requirements.txt 2>"$home/pip.log" \
  || { cat "$home/pip.log"; exit 1; }
failed=0
for script in finding_*.py; do
  echo
  "$python" "$script" || failed=1
done
exit $failed
