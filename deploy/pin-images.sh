#!/bin/sh
# Pins the images of deploy/compose.yml that come from a registry: pin-images.sh [FILE]
# Fetches each image, and writes its name with the registry's digest into FILE, by default the .env beside compose.yml,
# which compose reads by itself; other lines in FILE stay. From then on compose uses exactly these images, until the
# script runs again. It needs docker and the registry.
set -eu
file=${1:-$(dirname "$0")/.env}
pin() {
    docker pull --quiet "$2" >&2
    pinned=$(docker image inspect --format '{{index .RepoDigests 0}}' "$2")
    case $pinned in
    *@sha256:*) ;;
    *)
        echo "$0: the registry gave no digest for $2" >&2
        exit 1
        ;;
    esac
    touch "$file"
    kept=$(grep -v "^$1=" "$file" || true)
    printf '%s\n' ${kept:+"$kept"} "$1=$pinned" >"$file"
}
pin PYTHON_IMAGE python:3.11-slim-bookworm
pin PROMETHEUS_IMAGE prom/prometheus:v3.5.0
pin GRAFANA_IMAGE grafana/grafana:12.1.0
