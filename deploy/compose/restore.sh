#!/bin/sh
# Brings back what backup.sh saved, in place of what is there; run it with PostgreSQL up and the gateways stopped:
#     docker compose up --detach postgres && docker compose stop gateway-1 gateway-2
#     deploy/compose/restore.sh FOLDER && docker compose up --detach
# A backup of an older version is migrated by that last command.
set -eu

folder=${1:?usage: restore.sh FOLDER}
test -s "$folder/gepard.dump" && test -s "$folder/clips.tar"
docker compose exec -T postgres sh -c \
    'PGPASSWORD=$(cat "$POSTGRES_PASSWORD_FILE") pg_restore --host="${POSTGRES_LISTENS:-127.0.0.1}" --username=gepard --dbname=gepard --clean --if-exists --no-owner --single-transaction' \
    < "$folder/gepard.dump"
docker compose run --rm --no-deps -T --entrypoint tar gateway-1 -C /data -x < "$folder/clips.tar"
echo "Restored from $folder" >&2
