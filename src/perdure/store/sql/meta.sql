-- name: meta.get
-- One property of the store.
select value from meta where key = :key;

-- name: meta.lock
-- Lock and read one property of the store until the transaction ends.
select value from meta where key = :key {lock};

-- name: meta.put
-- Set one property of the store.
insert into meta (key, value) values (:key, :value) on conflict (key) do update set value = excluded.value;

-- name: meta.all
-- Every property of the store.
select key, value from meta order by key limit :limit;

-- name: meta.check_schema@postgres
-- Fail, and with it the whole transaction, if the schema has outgrown the code that knows `known`.
select perdure_check_schema(:known);

-- name: meta.server_time@postgres
-- The server's clock, in microseconds.
select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint);

-- name: meta.exists
-- Whether the store has any tables yet.
select 1 from sqlite_master where type = 'table' and name = 'meta';

-- name: meta.exists@postgres
-- Whether the store has any tables yet.
select 1 where to_regclass('meta') is not null;

-- name: meta.notify@postgres
-- Notify other processes of a change, when this transaction is committed.
select pg_notify(:channel, :payload);

-- name: meta.notify_many@postgres
-- Notify other processes of several changes.
select pg_notify(one.channel, one.payload)
from unnest(cast(:channels as text []), cast(:payloads as text [])) as one (channel, payload);

-- name: meta.lock_migrations@postgres
-- Keep other migrators out, for as long as this connection lives.
select pg_advisory_lock(7010073657);

-- name: meta.unlock_migrations@postgres
-- Let other migrators in.
select pg_advisory_unlock(7010073657);

-- name: meta.exclude_migrations@postgres
-- Keep migrators out until this transaction ends.
select pg_advisory_xact_lock(7010073657);

-- name: meta.no_limits@postgres
-- Let this transaction take any time. A server does not know every one of these settings.
select set_config(name, '0', true) from pg_settings
where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');

-- name: meta.started@postgres
-- When this server was started: with a pooler in between, the only sign that it is another one.
select cast(extract(epoch from pg_postmaster_start_time()) * 1000000 as bigint);

-- name: meta.same_server@postgres
-- Refuse the rest of a transaction if another server has taken the place of the one that was asked before.
select perdure_same_server({same_server});

-- name: meta.durability@postgres
-- Whether the commit that follows waits for standbys, and for which.
select {durability};

-- name: meta.session_user@postgres
-- The role that is logged in, which is who acts.
select cast(session_user as text);
