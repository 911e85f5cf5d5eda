#!/bin/sh
# Like the Postgres image: creates the cluster at its first start, and leaves root.
set -eu
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA"
  chown -R postgres:postgres /var/lib/postgresql
  chmod 700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  echo "${POSTGRES_PASSWORD:?}" >/tmp/password
  # shellcheck disable=SC2086 # Several arguments.
  initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 $POSTGRES_INITDB_ARGS
  rm /tmp/password
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  echo "create database $POSTGRES_USER" | postgres --single postgres
fi
exec "$@" -c listen_addresses='*' -k /tmp
