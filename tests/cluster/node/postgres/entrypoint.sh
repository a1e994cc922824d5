#!/bin/sh
# Starts a PostgreSQL server. The first start makes its data: with the superuser's password, and by the scripts of the mounted folder.
# Variables and folder are those of the official image: PGDATA, POSTGRES_PASSWORD, POSTGRES_INITDB_ARGS, /docker-entrypoint-initdb.d.
set -eu
case "${1-}" in
-*) set -- postgres "$@" ;;
esac
if [ "${1-}" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    password=$(mktemp)
    printf '%s\n' "${POSTGRES_PASSWORD:?the superuser needs a password}" > "$password"
    # Its words are arguments.
    # shellcheck disable=SC2086
    initdb --username=postgres --pwfile="$password" ${POSTGRES_INITDB_ARGS-}
    rm "$password"
    shift
    # Nobody connects from outside meanwhile.
    pg_ctl --wait start --options="$* -c listen_addresses=''"
    for script in /docker-entrypoint-initdb.d/*.sql; do
        psql --username=postgres --no-psqlrc --set=ON_ERROR_STOP=1 --file="$script"
    done
    pg_ctl --wait stop --mode=fast
    set -- postgres "$@"
fi
exec "$@"
