#!/bin/sh
# Shares this machine's memory among the nodes of deploy/compose.yml: share-memory.sh [NODES] [FILE]
# Writes QUORATE_MEMORY and QUORATE_MEMORY_RESERVATION, in octets, into FILE, by default the .env beside compose.yml,
# which compose reads by itself; other lines in FILE stay. NODES (by default 3) nodes get equal shares. A gibibyte, or a quarter
# of a small machine, is left for the system, Prometheus and Grafana. A node's memory alarm depends on its limit.
set -eu
nodes=${1:-3}
file=${2:-$(dirname "$0")/.env}
total=$(awk '/^MemTotal:/ {printf "%.0f", $2 * 1024}' "${MEMINFO:-/proc/meminfo}")
rest=1073741824
if [ $((total / 4)) -lt $rest ]; then rest=$((total / 4)); fi
limit=$(((total - rest) / nodes))
if [ "$limit" -lt 268435456 ]; then
    echo "$0: $nodes nodes would have $((limit / 1048576)) MiB each; one needs 256 at least" >&2
    exit 1
fi
touch "$file"
kept=$(grep -v '^QUORATE_MEMORY' "$file" || true)
printf '%s\n' ${kept:+"$kept"} "QUORATE_MEMORY=$limit" "QUORATE_MEMORY_RESERVATION=$((limit / 2))" >"$file"
