-- name: task.insert
-- Insert a task.
insert into task (session_uid, id, parent_id, title, state, priority, branch, assigned_worker, note, created_at, updated_at)
values (:uid, :id, :parent_id, :title, 'open', :priority, :branch, :assigned_worker, :note, :now, :now)
on conflict (session_uid, id) do nothing;

-- name: task.change
-- Change a task.
update task set title = :title, state = :state, priority = :priority, branch = :branch,
    assigned_worker = :assigned_worker, note = :note, updated_at = :now
where session_uid = :uid and id = :id;

-- name: task.get
-- One task.
select {columns:task} from task where session_uid = :uid and id = :id;

-- name: task.of_session
-- A session's plan, siblings in order.
select {columns:task} from task where session_uid = :uid
order by priority desc, created_at, id limit :limit;

-- name: task.active
-- The task that a session works at: of several, the first of its plan.
select id from task where session_uid = :uid and state = 'active'
order by priority desc, created_at, id limit 1;

-- name: task.unfinished_below
-- Tasks directly below one that are not finished.
select id from task where session_uid = :uid and parent_id = :id and state in ('open', 'active', 'blocked')
order by id limit :limit;
