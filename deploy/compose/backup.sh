#!/bin/sh
# Saves what cannot be made anew: the database (keys, voices, consents, usage) and the recordings.
#     deploy/compose/backup.sh FOLDER
# The gateways may run. The database comes first: a voice that is made meanwhile is at worst a file without a row.
# A clip that is deleted meanwhile makes the restored voice fail: take backups where nobody deletes, or stop them.
# Recordings in S3 (clips.s3_bucket) are not in it. Redis holds nothing that has to be saved.
set -eu
umask 077

folder=${1:?usage: backup.sh FOLDER}
mkdir -p "$folder"
docker compose exec -T postgres sh -c \
    'PGPASSWORD=$(cat "$POSTGRES_PASSWORD_FILE") pg_dump --host="${POSTGRES_LISTENS:-127.0.0.1}" --username=gepard --format=custom gepard' \
    > "$folder/gepard.dump.part"
docker compose exec -T gateway-1 sh -c 'mkdir -p /data/clips && tar -C /data -c clips' > "$folder/clips.tar.part"
mv "$folder/gepard.dump.part" "$folder/gepard.dump"
mv "$folder/clips.tar.part" "$folder/clips.tar"
echo "Saved to $folder: gepard.dump, clips.tar" >&2
