-- The words themselves, without the text that they are from.

create virtual table search_words using fts5(words, content='', contentless_delete=1, tokenize='unicode61');

-- What is erased from a log is forgotten here in the same transaction.

create trigger search_forgets_event after update of body on event
when new.body is null and old.body is not null
begin
    delete from search_words where rowid in (
        select id from search_entry where session_uid = old.session_uid and number = old.number
    );
    delete from search_entry where session_uid = old.session_uid and number = old.number;
    update search_position set digest = 'erased' where session_uid = '';
end;

create trigger search_forgets_session after update of removed_at on session
when new.removed_at is not null
begin
    delete from search_words where rowid in (
        select id from search_entry where session_uid = old.uid
    );
    delete from search_entry where session_uid = old.uid;
    update search_position set digest = 'erased' where session_uid = '';
end;
