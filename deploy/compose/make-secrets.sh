#!/bin/sh
# Makes the secrets of the stack where there are none, one folder for each audience. Nothing is printed.
# A value from the environment is taken in place of a random one; PostgreSQL keeps the password of its first start.
set -eu
umask 022

broker_dir=${BROKER_DIR:-/run/gepard/broker}
database_dir=${DATABASE_DIR:-/run/gepard/database}
key_dir=${KEY_DIR:-/run/gepard/key}

random() {
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}

# keep FILE VALUE: the value, else what is there, else a random one.
keep() {
    if [ -n "$2" ]; then
        case $2 in
            *[!A-Za-z0-9._~-]*)
                echo "a password or key has characters other than A-Z a-z 0-9 . _ ~ -" >&2
                exit 1
                ;;
        esac
        printf '%s' "$2" > "$1"
    elif [ ! -s "$1" ]; then
        printf '%s' "${3:-}$(random)" > "$1"
    fi
}

mkdir -p "$broker_dir" "$database_dir" "$key_dir"
keep "$broker_dir/password" "${VALKEY_PASSWORD:-}"
keep "$database_dir/password" "${POSTGRES_PASSWORD:-}"
keep "$key_dir/api-key" "${GEPARD_API_KEY:-}" gp-

broker=$(cat "$broker_dir/password")
database=$(cat "$database_dir/password")
printf 'requirepass %s\n' "$broker" > "$broker_dir/valkey.conf"
printf 'redis://:%s@%s/0' "$broker" "${VALKEY_ADDRESS:-valkey:6379}" > "$broker_dir/redis-url"
printf 'postgresql://gepard:%s@%s/gepard' "$database" "${POSTGRES_ADDRESS:-postgres:5432}" > "$database_dir/url"
