-- phase: expand
-- compatible_from: 10
-- Full-text search: which words are in which event. It can be deleted at any time: a search makes it again.

create table search_entry (
    id {int} primary key not null,
    session_uid text not null,
    number {int} not null, -- of the event; 0: the session's own names, title and prompt
    at {int} not null
) {strict};

create unique index search_entry_of_event on search_entry (session_uid, number);

create table search_position (
    session_uid text primary key not null, -- '' is the row of the whole index, which an indexer locks
    number {int} not null, -- the last event that is indexed; of the whole index: the last id
    at {int} not null, -- of the whole index: sessions that changed earlier are indexed
    digest text not null -- of the session's names, title and prompt, as they are indexed; of the whole index: 'erased', if
        -- words were deleted since it was last rewritten
) {strict};

insert into search_position (session_uid, number, at, digest) values ('', 0, 0, '');
