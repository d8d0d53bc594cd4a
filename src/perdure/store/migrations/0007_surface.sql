-- phase: expand
-- compatible_from: 5
-- A request to interrupt a session: what it does is stopped now, and then it waits for a person. Older code ignores it.

alter table session add column interrupt_requested_at {int};

insert into event_kind (kind, meaning) values
    ('interrupt.requested', 'interrupt requested, or the request removed because nothing was under way');
