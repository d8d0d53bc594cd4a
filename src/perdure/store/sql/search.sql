-- name: search.lock
-- Keep other indexers out, and read how far the index is.
select number, at, digest from search_position where session_uid = '' {lock};

-- name: search.changed
-- Sessions that have events which are not indexed, those that changed first before the others.
select session.uid, session.cursor, session.updated_at, coalesce(search_position.number, 0),
    coalesce(search_position.digest, '')
from session left join search_position on search_position.session_uid = session.uid
where session.updated_at >= :since and session.removed_at is null
    and session.cursor > coalesce(search_position.number, 0)
order by session.updated_at, session.uid limit :limit;

-- name: search.insert_entry
-- Index one event of a session, by its time.
insert into search_entry (id, session_uid, number, at) values (:id, :uid, :number, :at);

-- name: search.insert_words
-- The words of an event.
insert into search_words (rowid, words) values (:id, :words);

-- name: search.insert_words@postgres
-- The words of an event, with their places.
insert into search_words (rowid, words) values (:id, to_tsvector('simple', cast(:words as text)));

-- name: search.put_position
-- Record how far a session, or the whole index, is indexed.
insert into search_position (session_uid, number, at, digest) values (:uid, :number, :at, :digest)
on conflict (session_uid) do update set number = excluded.number, at = excluded.at, digest = excluded.digest;

-- name: search.forget_words
-- Forget the words of an event.
delete from search_words where rowid in (
    select id from search_entry where session_uid = :uid and number = :number
);

-- name: search.forget_entry
-- Forget that an event is indexed.
delete from search_entry where session_uid = :uid and number = :number;

-- name: search.condition
-- Whether words were deleted since the index was last rewritten.
select digest from search_position where session_uid = '';

-- name: search.rewrite
-- Write the index anew: deleted words stay in its pages until then.
insert into search_words (search_words) values ('optimize');

-- name: search.rewrite@postgres
-- Write the index anew: deleted words stay in its pages until then.
reindex index search_words_in;

-- name: search.find
-- Events with some words, the last indexed first.
select search_entry.id, search_entry.session_uid, search_entry.number
from search_words join search_entry on search_entry.id = search_words.rowid
where search_words match :fts and search_words.rowid < :before
order by search_words.rowid desc limit :limit;

-- name: search.find@postgres
-- Events with some words, the last indexed first.
select search_entry.id, search_entry.session_uid, search_entry.number
from search_words join search_entry on search_entry.id = search_words.rowid
where search_words.words @@ to_tsquery('simple', :tsquery) and search_words.rowid < :before
order by search_words.rowid desc limit :limit;

-- name: search.find_in_session
-- Events of one session with some words, the last indexed first.
select search_entry.id, search_entry.session_uid, search_entry.number
from search_words join search_entry on search_entry.id = search_words.rowid
where search_words match :fts and search_entry.session_uid = :uid and search_words.rowid < :before
order by search_words.rowid desc limit :limit;

-- name: search.find_in_session@postgres
-- Events of one session with some words, the last indexed first.
select search_entry.id, search_entry.session_uid, search_entry.number
from search_words join search_entry on search_entry.id = search_words.rowid
where search_words.words @@ to_tsquery('simple', :tsquery) and search_entry.session_uid = :uid
    and search_words.rowid < :before
order by search_words.rowid desc limit :limit;
