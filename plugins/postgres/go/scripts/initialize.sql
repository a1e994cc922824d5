-- Creates the database and its owner, or brings both to what the spec says. The Job runs it, also for a volume that has a database.
\set database `printenv DATABASE`
\set owner `printenv OWNER`
\set owner_password `printenv OWNER_PASSWORD`
\set superuser_access `printenv SUPERUSER_ACCESS`
\set superuser_password `printenv SUPERUSER_PASSWORD`
-- No password reaches the log.
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
SET log_min_duration_statement = -1;
SELECT format('CREATE ROLE %I', :'owner') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'owner') \gexec
ALTER ROLE :"owner" LOGIN PASSWORD :'owner_password';
SELECT format('CREATE DATABASE %I', :'database') WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
ALTER DATABASE :"database" OWNER TO :"owner";
\if :superuser_access
ALTER ROLE postgres PASSWORD :'superuser_password';
\else
ALTER ROLE postgres PASSWORD NULL;
\endif
