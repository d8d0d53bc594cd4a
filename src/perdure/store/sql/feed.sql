-- name: feed.lock_end
-- The number of the last event in the feed, locked: one transaction numbers at a time.
select number from feed_end where one = 1 {lock};

-- name: feed.end
-- The number of the last event in the feed.
select number from feed_end where one = 1;

-- name: feed.advance
-- Move the end of the feed.
update feed_end set number = :number where one = 1;

-- name: feed.insert
-- Number a part of a log.
insert into feed (number, session_uid, first, through) values (:number, :session_uid, :first, :through);

-- name: feed.behind_since
-- Sessions that changed since a time and have events without a number, with the last event that has one.
select uid, cursor, coalesce((
        select feed.through from feed where feed.session_uid = session.uid order by feed.first desc limit 1
    ), 0) as done
from session {index:session_recent}
where updated_at >= :since and cursor > coalesce((
        select feed.through from feed where feed.session_uid = session.uid order by feed.first desc limit 1
    ), 0)
order by updated_at, uid limit :limit;

-- name: feed.behind
-- All sessions that have events without a number, by uid.
select uid, cursor, coalesce((
        select feed.through from feed where feed.session_uid = session.uid order by feed.first desc limit 1
    ), 0) as done
from session
where uid > :after and cursor > coalesce((
        select feed.through from feed where feed.session_uid = session.uid order by feed.first desc limit 1
    ), 0)
order by uid limit :limit;

-- name: feed.numbered
-- The last event of a log that has a number; the control log has an empty uid.
select through from feed where session_uid = :session_uid order by first desc limit 1;

-- name: feed.part_of
-- The part of a log that has a number of the feed.
select number, session_uid, first, through from feed where number <= :number order by number desc limit 1;

-- name: feed.parts
-- The parts of logs from a number of the feed, in order.
select number, session_uid, first, through from feed where number >= :number order by number limit :limit;
