#!/usr/bin/env bash
# Makes a stand-in for the image that deploy/Dockerfile builds on, where no image registry can be reached:
# Debian's bookworm with python3 and a C compiler, from the machine's own package mirror. Needs root, debootstrap and docker.
# base-image.sh [TAG]; DEBIAN_MIRROR names another mirror than Debian's.
set -euo pipefail
tag=${1:-python:3.11-slim-bookworm}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include=python3,python3-venv,python3-dev,gcc,libc6-dev,ca-certificates bookworm "$root" \
    ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
# The image trusts the certificates that this machine trusts: mirrors may have their own.
cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
ln -sf python3 "$root/usr/bin/python"
tar --directory "$root" --create . | docker import - "$tag"
