-- name: inbox.insert
-- Insert a message under the id that its sender chose.
insert into inbox (session_uid, id, sequence, mode, body, sender, received_at)
values (:uid, :id, :sequence, :mode, :body, :sender, :now);

-- name: inbox.get
-- One message.
select {columns:inbox} from inbox where session_uid = :uid and id = :id;

-- name: inbox.last_sequence
-- The sequence number of the newest message.
select coalesce(max(sequence), 0) from inbox where session_uid = :uid;

-- name: inbox.unread
-- MessageBus that have not joined the transcript, in order.
select {columns:inbox} from inbox where session_uid = :uid and promoted_as is null
    and (cast(:mode as text) is null or mode = :mode)
order by sequence limit :limit;

-- name: inbox.promote
-- Note the event that the message became.
update inbox set promoted_as = :number where session_uid = :uid and id = :id and promoted_as is null;

-- name: inbox.promoted
-- The messages that joined the transcript.
select id from inbox where session_uid = :uid and promoted_as is not null limit :limit;
