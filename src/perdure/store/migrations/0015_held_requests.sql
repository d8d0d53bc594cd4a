-- phase: expand
-- compatible_from: 10
-- Which service process carries a request out that was begun, and until when the others leave it alone; and the order of
-- lists that are read by key.

alter table request add column holder text;
alter table request add column held_until {int};

create index artifact_by_time on artifact (created_at);
