-- name: vote.insert
-- Insert a vote.
insert into vote (session_uid, approval_id, voter, decision, rationale, at, identity, principal_uid)
values (:uid, :approval_id, :voter, :decision, :rationale, :now, :identity, :principal_uid);

-- name: vote.of_approval
-- Votes on an approval.
select {columns:vote} from vote where session_uid = :uid and approval_id = :approval_id order by at, voter limit :limit;
