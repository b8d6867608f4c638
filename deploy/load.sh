#!/bin/sh
# Traffic to look at: load.sh publish|consume QUEUE HOST … takes the hosts in turn, for ever.
set -eu
what=$1 queue=$2
shift 2
password=$(cat /run/quorate/shared/password)
while true; do
    for host in "$@"; do
        url=amqp://quorate:$password@$host:5672/
        if [ "$what" = publish ]; then
            quorate publish --url "$url" --queue "$queue" --size 256 --count 20000 --rate "${RATE:-500}" || sleep 1
        else
            quorate consume --url "$url" --queue "$queue" --count 20000 --quiet || sleep 1
        fi
    done
done
