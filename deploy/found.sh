#!/bin/sh
# Makes what a cluster needs to be founded, once: found.sh TEMPLATE DIRECTORY NAME=HOST …
# Writes DIRECTORY/NAME/key and DIRECTORY/shared/{password,quorate.toml}. Run again it changes nothing.
set -eu
umask 077
template=$1 directory=$2
shift 2
shared=$directory/shared
if [ -e "$shared/quorate.toml" ]; then
    echo "$shared/quorate.toml is there: nothing to do"
    exit 0
fi
mkdir -p "$shared"
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
password=$(python3 -c 'import secrets; print(secrets.token_urlsafe(24))')
echo "$password" >"$shared/password"
cat >>"$scratch" <<END

[cluster.users.quorate]
password_hash = '$(quorate hash-password --password "$password")'
END
[ "$(id -u)" != 0 ] || chown -R quorate:quorate "$directory"
# Last: whoever finds this file finds everything.
mv "$scratch" "$shared/quorate.toml"
