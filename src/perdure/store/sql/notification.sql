-- name: notification.channels
-- The channels, by name.
select {columns:notification_channel} from notification_channel order by name limit :limit;

-- name: notification.put_channel
-- Register a channel, or change one.
insert into notification_channel (name, kind, topics, registered_by, registered_at)
values (:name, :kind, :topics, :by, :now)
on conflict (name) do update set kind = excluded.kind, topics = excluded.topics, registered_by = excluded.registered_by,
    registered_at = excluded.registered_at;

-- name: notification.remove_channel
-- Forget a channel.
delete from notification_channel where name = :name;

-- name: notification.abandon
-- What still waits for a channel that was removed is not sent.
update notification set state = 'failed', error = :error, claimed_by = null
where channel = :channel and state = 'pending';

-- name: notification.insert
-- Write a notification for one channel.
insert into notification (id, channel, session_uid, topic, body, created_at, state, attempts, next_at)
values (:id, :channel, :session_uid, :topic, :body, :now, 'pending', 0, :now)
on conflict (id, channel) do nothing;

-- name: notification.get
-- One notification on one channel.
select {columns:notification} from notification where id = :id and channel = :channel;

-- name: notification.due
-- The first notifications of a channel that are not sent, by the time of their next attempt.
select {columns:notification} from notification
where channel = :channel and state = 'pending' order by next_at, id limit :limit;

-- name: notification.claim
-- Take a notification to send it, for a time after which another process may take it.
update notification set claimed_by = :by, attempts = attempts + 1, next_at = :until
where id = :id and channel = :channel and state = 'pending' and next_at = :seen and next_at <= :now;

-- name: notification.settle
-- Record how an attempt to send has ended, if no other process took the notification since.
update notification set state = :state, next_at = :next_at, sent_at = :sent_at, error = :error, claimed_by = null
where id = :id and channel = :channel and state = 'pending' and claimed_by = :by;

-- name: notification.retry
-- Send a notification that has failed again.
update notification set state = 'pending', attempts = 0, next_at = :now, claimed_by = null
where id = :id and channel = :channel and state = 'failed';

-- name: notification.list
-- Notifications by an operator's filters, the newest first.
select {columns:notification} from notification
where (cast(:state as text) is null or state = :state) and (cast(:channel as text) is null or channel = :channel)
    and (cast(:id as text) is null or id = :id)
order by created_at desc, id, channel limit :limit;

-- name: notification.counts
-- For each channel: how many notifications wait after an attempt or for long, how many failed, and an error.
select channel, sum(case when state = 'pending' and (attempts > 0 or created_at < :before) then 1 else 0 end),
    sum(case when state = 'failed' then 1 else 0 end), max(error)
from notification where state <> 'sent' group by channel order by channel limit :limit;

-- name: notification.forget
-- Forget notifications from before a time that are not to be sent any more.
delete from notification where created_at < :before and state <> 'pending';

-- name: notification.older
-- A notification from before a time that is not to be sent any more.
select id from notification where created_at < :before and state <> 'pending' limit :limit;
