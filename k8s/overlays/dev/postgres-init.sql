-- The owner brings the schema up to date, and makes what roles it grants to; the fleet's login may do what
-- workers do, upkeep's what the system's own commands do; the gateway's sees no row by itself, it takes each caller's role; KEDA's reads how the queue stands.
CREATE ROLE owner_login LOGIN CREATEROLE PASSWORD 'dev-owner';
SET ROLE owner_login; -- from PostgreSQL 16 on, only who has made a role may change it
CREATE ROLE cortana_worker NOLOGIN;
CREATE ROLE cortana_upkeep NOLOGIN;
CREATE ROLE cortana_gateway NOLOGIN;
CREATE ROLE cortana_metrics NOLOGIN;
RESET ROLE;
CREATE ROLE fleet_login LOGIN PASSWORD 'dev-fleet' IN ROLE cortana_worker;
CREATE ROLE upkeep_login LOGIN PASSWORD 'dev-upkeep' IN ROLE cortana_upkeep;
CREATE ROLE gateway_login LOGIN PASSWORD 'dev-gateway' IN ROLE cortana_gateway;
CREATE ROLE keda_login LOGIN PASSWORD 'dev-keda' CONNECTION LIMIT 30 IN ROLE cortana_metrics;
ALTER ROLE keda_login SET default_transaction_read_only = on;
ALTER ROLE keda_login SET statement_timeout = '5s';
CREATE DATABASE cortana OWNER owner_login;
