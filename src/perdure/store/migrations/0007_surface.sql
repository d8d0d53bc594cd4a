-- phase: expand
-- compatible_from: 7
-- What people do with sessions: interrupt, another model, retry after a failure, archive, remove. Older code would run a session
-- with the wrong model, and would not know which failures a retry takes back, so it must not use the store any more.

insert into event_kind (kind, meaning) values
    ('interrupt.requested', 'interrupt requested, or the request removed because nothing was under way'),
    ('session.retried', 'a failed session runs again'),
    ('session.removed', 'the content of the session was removed');

update event_kind set meaning = 'the title, owner, queue, priority or model changed, or the session was archived'
where kind = 'session.described';

alter table session add column interrupt_requested_at {int}; -- what it does is stopped, and then it waits for a person
alter table session add column model text; -- chosen by a person, instead of the one that the agent names
alter table session add column archived_at {int};
alter table session add column retries {int}; -- how often it was retried; null: never
alter table session add column removed_at {int}; -- its content is forgotten; the row keeps the id from being used again
