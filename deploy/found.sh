#!/bin/sh
# Makes what a cluster needs to be founded, once: found.sh TEMPLATE DIRECTORY NAME=HOST …
# Writes DIRECTORY/NAME/key for each node, DIRECTORY/shared/quorate.toml with hashes of passwords for all of them, and
# the passwords themselves where no node looks: DIRECTORY/secret/password, that of the user "quorate", and
# DIRECTORY/prometheus/password, made up for the user "prometheus", who may look on. Run again it changes nothing.
# The password of the user "quorate" is the first line of the file PASSWORD_FILE (by default the secret that
# compose gives), or made up where that is empty or absent. It is no argument of any command: others could see it.
set -eu
umask 077
template=$1 directory=$2
shift 2
shared=$directory/shared
if [ -e "$shared/quorate.toml" ]; then
    echo "$shared/quorate.toml is there: nothing to do"
    exit 0
fi
mkdir -p "$shared" "$directory/secret" "$directory/prometheus"
scratch=$shared/.quorate.toml
cp "$template" "$scratch"
for node in "$@"; do
    name=${node%%=*} host=${node#*=}
    mkdir -p "$directory/$name"
    rm -f "$directory/$name/key"
    public_key=$(quorate keygen "$directory/$name/key")
    cat >>"$scratch" <<END

[cluster.nodes."$name"]
amqp = "$host:5672"
http = "$host:15672"
peers = "$host:25672"
public_key = '$public_key'
END
done
given=${PASSWORD_FILE:-/run/secrets/password}
if [ -s "$given" ]; then
    password=$(head -n 1 "$given")
else
    password=$(python3 -c 'import secrets; print(secrets.token_urlsafe(24))')
fi
# user NAME FILE PASSWORD TAG: the password into the file, its hash into what the nodes read.
# The shell's own printf: no process has the password among its arguments. The command asks twice.
user() {
    printf '%s\n' "$3" >"$2"
    hash=$(printf '%s\n%s\n' "$3" "$3" | quorate hash-password 2>/dev/null)
    cat >>"$scratch" <<END

[cluster.users.$1]
password_hash = '$hash'
tags = ["$4"]
END
}
user quorate "$directory/secret/password" "$password" administrator
user prometheus "$directory/prometheus/password" \
    "$(python3 -c 'import secrets; print(secrets.token_urlsafe(24))')" monitoring
# In the image the nodes' account reads it; elsewhere there need be no such account.
if [ "$(id -u)" = 0 ] && id quorate >/dev/null 2>&1; then
    chown -R quorate:quorate "$directory"
    # Prometheus' image runs as nobody.
    chown -R 65534:65534 "$directory/prometheus"
fi
# Last: whoever finds this file finds everything.
mv "$scratch" "$shared/quorate.toml"
