#!/bin/sh
# Makes the keys, the shared file and the passwords of a new cluster: found.sh TEMPLATE DIRECTORY NAME=HOST …
# Writes DIRECTORY/NAME/key for each node, DIRECTORY/shared/quorate.toml with hashes of passwords for all of them, and
# the passwords themselves in files that no node gets: DIRECTORY/secret/password for the user "quorate", and
# DIRECTORY/prometheus/password for the user "prometheus", who may only read. A second run changes nothing.
# The password of the user "quorate" is the first line of the file PASSWORD_FILE (by default the secret of compose);
# where that is empty or absent the script generates one. No command has a password as an argument, which others could see.
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
# user NAME FILE PASSWORD TAG: writes the password into the file, and its hash into the nodes' shared file.
# printf is the shell's own, so no process has the password among its arguments. The command asks for it twice.
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
# In the image the nodes' account reads the file; elsewhere the account need not exist.
if [ "$(id -u)" = 0 ] && id quorate >/dev/null 2>&1; then
    chown -R quorate:quorate "$directory"
    # Prometheus' image runs as nobody.
    chown -R 65534:65534 "$directory/prometheus"
fi
# Last: where this file exists, all others do.
mv "$scratch" "$shared/quorate.toml"
