#!/bin/sh
# Copies the data of the primary to the volume of a replica, unless the volume has data. A copy that was interrupted begins again.
set -eu
if [ -s "$PGDATA/PG_VERSION" ]; then
    echo "$PGDATA has data"
    exit 0
fi
rm -rf "$PGDATA" "$PGDATA.copy"
# The settings for the replication, with the password, go into the copy.
pg_basebackup --pgdata="$PGDATA.copy" --dbname="$PRIMARY" --no-password \
    --write-recovery-conf --wal-method=stream --checkpoint=fast
mv "$PGDATA.copy" "$PGDATA"
