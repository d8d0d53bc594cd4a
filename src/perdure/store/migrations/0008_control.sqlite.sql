-- A session that is ready may have to wait for a slot; a failed one may wait before it is retried.

drop trigger session_moves_legally;

create trigger session_moves_legally before update of status on session
when new.status <> old.status and not (
    old.status = 'ready' and new.status in ('running', 'waiting', 'cancelled')
    or old.status = 'running' and new.status in ('ready', 'waiting', 'done', 'failed', 'cancelled')
    or old.status = 'waiting' and new.status in ('ready', 'cancelled')
    or old.status = 'failed' and new.status in ('ready', 'waiting')
)
begin select raise(abort, 'perdure: a session may not make this move'); end;
