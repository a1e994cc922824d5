-- Creates the roles of the plugin. The entrypoint of the image runs it once, on the first start of the primary.
\set admin `printenv ADMIN_PASSWORD`
\set replication `printenv REPLICATION_PASSWORD`
\set metrics `printenv METRICS_PASSWORD`
-- No password reaches the log.
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
SET log_min_duration_statement = -1;
CREATE ROLE windlass SUPERUSER LOGIN PASSWORD :'admin';
CREATE ROLE streaming_replica REPLICATION LOGIN PASSWORD :'replication';
CREATE ROLE windlass_metrics LOGIN PASSWORD :'metrics' IN ROLE pg_monitor;
