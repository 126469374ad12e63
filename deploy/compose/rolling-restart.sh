#!/bin/sh
# Restarts workers, then gateways, one at a time: each lets its replies end, and the next waits until it is well again.
#     deploy/compose/rolling-restart.sh [SERVICE ...]     (default: worker gateway-1 gateway-2)
# For a new image: docker compose pull (or build), then `docker compose up --detach --no-deps SERVICE` one by one.
set -eu

if [ $# -eq 0 ]; then
    set -- worker gateway-1 gateway-2
fi
for service in "$@"; do
    for container in $(docker compose ps --quiet "$service"); do
        docker restart --timeout 90 "$container" > /dev/null
        until [ "$(docker inspect --format '{{.State.Health.Status}}' "$container")" = healthy ]; do
            sleep 1
        done
        echo "$service: restarted $container" >&2
    done
done
