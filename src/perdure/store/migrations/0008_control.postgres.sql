-- A session that is ready may have to wait for a slot; a failed one may wait before it is retried.

drop trigger session_moves_legally on session;

create trigger session_moves_legally before update of status on session for each row
when (new.status <> old.status and not (
    old.status = 'ready' and new.status in ('running', 'waiting', 'cancelled')
    or old.status = 'running' and new.status in ('ready', 'waiting', 'done', 'failed', 'cancelled')
    or old.status = 'waiting' and new.status in ('ready', 'cancelled')
    or old.status = 'failed' and new.status in ('ready', 'waiting')
))
execute function perdure_refuse('a session may not make this move');

-- Every claim and every move leaves a dead version of a session's row and dead entries in its indexes, and claims read
-- those indexes. So these tables are vacuumed after a number of changes, not after a part of a table that only grows.
alter table session set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);
alter table effect set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
alter table attempt set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
alter table wait set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Events are only added: freezing them while they are still in memory leaves nothing to read again later.
alter table event set (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_freeze_min_age = 0);

-- Few rows that are updated all the time, in place: their pages need room, and are vacuumed early.
alter table queue set (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);
alter table rate_limit set (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);
alter table worker set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);
alter table lease set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 100);
