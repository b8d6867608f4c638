#!/bin/sh
# Traffic for a demonstration: load.sh publish|consume QUEUE HOST … uses the hosts in turn, for ever.
set -eu
what=$1 queue=$2
shift 2
speak() {
    quorate "$what" --url "amqp://quorate@$host:5672/" --password-file /run/quorate/secret/password \
        --queue "$queue" --count 20000 "$@" || sleep 1
}
while true; do
    for host in "$@"; do
        if [ "$what" = publish ]; then
            speak --size 256 --rate "${RATE:-500}"
        else
            speak --quiet
        fi
    done
done
