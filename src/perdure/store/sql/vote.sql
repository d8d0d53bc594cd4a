-- name: vote.insert
-- Insert a vote, once per person.
insert into vote (session_uid, approval_id, voter, decision, rationale, at)
values (:uid, :approval_id, :voter, :decision, :rationale, :now)
on conflict (session_uid, approval_id, voter) do nothing;

-- name: vote.of_approval
-- Votes on an approval.
select {columns:vote} from vote where session_uid = :uid and approval_id = :approval_id order by at, voter limit :limit;
