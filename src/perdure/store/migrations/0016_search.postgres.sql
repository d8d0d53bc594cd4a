-- The words themselves, without the text that they are from.

create table search_words (
    rowid bigint primary key not null, -- as SQLite names it
    words tsvector not null
);

create index search_words_in on search_words using gin (words);

-- What is erased from a log is forgotten here in the same transaction. The lock keeps out an indexer that has read it.

create function perdure_search_forgets_event() returns trigger language plpgsql as $$
begin
    update search_position set digest = 'erased' where session_uid = '';
    delete from search_words where rowid in (
        select id from search_entry where session_uid = old.session_uid and number = old.number
    );
    delete from search_entry where session_uid = old.session_uid and number = old.number;
    return null;
end $$;

create trigger search_forgets_event after update of body on event for each row
when (new.body is null and old.body is not null)
execute function perdure_search_forgets_event();

create function perdure_search_forgets_session() returns trigger language plpgsql as $$
begin
    update search_position set digest = 'erased' where session_uid = '';
    delete from search_words where rowid in (
        select id from search_entry where session_uid = old.uid
    );
    delete from search_entry where session_uid = old.uid;
    return null;
end $$;

create trigger search_forgets_session after update of removed_at on session for each row
when (new.removed_at is not null)
execute function perdure_search_forgets_session();

-- A role that may erase needs no rights on these tables, and objects of its own are not used in their place.

do $$
declare name text;
begin
    foreach name in array array['perdure_search_forgets_event()', 'perdure_search_forgets_session()'] loop
        execute format('alter function %s security definer', name);
        execute format('alter function %s set search_path = pg_catalog, %I, pg_temp', name, current_schema());
    end loop;
end $$;
