-- name: control_event.last
-- The end of the control log.
select number, chain from control_event order by number desc limit 1;

-- name: control_event.insert
-- Append one control event.
insert into control_event (number, kind, actor, at, move_id, body, digest, chain)
values (:number, :kind, :actor, :at, :move_id, :body, :digest, :chain);

-- name: control_event.of_move
-- The control events of a move: whether it was written already.
select {columns:control_event} from control_event where move_id = :move_id order by number limit :limit;

-- name: control_event.after
-- A part of the control log, in order.
select {columns:control_event} from control_event where number > :after order by number limit :limit;

-- name: control_event.newest
-- The newest control events, the newest first.
select {columns:control_event} from control_event
where number < :before and (cast(:kind as text) is null or kind = :kind)
order by number desc limit :limit;
