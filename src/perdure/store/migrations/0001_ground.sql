-- phase: expand
-- compatible_from: 1
-- The record: sessions and their logs, what they wait for, what they know, and who may move them.
-- Times are microseconds since 1970; JSON is text; a nullable ..._at stands where another schema has a boolean.

create table meta (
    key text primary key not null,
    value text not null
) {strict};

create table session (
    uid text primary key not null check (length(uid) = 32),
    id text not null unique check (id <> ''),
    program text not null,
    arguments text not null,
    result text,
    error text,
    title text,
    repository text,
    owner text,
    queue text not null,
    priority {int} not null,
    concurrency_key text,
    status text not null check (status in ('ready', 'running', 'waiting', 'done', 'failed', 'cancelled')),
    waiting_since {int},
    cursor {int} not null check (cursor >= 0),
    chain text not null,
    parent_uid text references session (uid),
    parent_wait text,
    forked_from text references session (uid),
    forked_at {int},
    branch text not null,
    lease_holder text,
    lease_nonce text,
    lease_epoch {int} not null check (lease_epoch >= 0),
    lease_until {int},
    restart_number {int} not null check (restart_number >= 0),
    restart_arguments text,
    crash_count {int} not null check (crash_count >= 0),
    cancel_requested_at {int},
    pause_requested_at {int},
    sealed_at {int},
    tokens_in {int} not null check (tokens_in >= 0),
    tokens_out {int} not null check (tokens_out >= 0),
    cost_micros {int} not null check (cost_micros >= 0),
    created_at {int} not null,
    updated_at {int} not null,
    version {int} not null check (version >= 1),
    check ((status = 'running') = (lease_nonce is not null)),
    check ((lease_nonce is null) = (lease_until is null)),
    check ((lease_nonce is null) = (lease_holder is null)),
    check ((status = 'waiting') = (waiting_since is not null)),
    check ((forked_from is null) = (forked_at is null)),
    check (result is null or status = 'done'),
    check (error is null or status in ('failed', 'cancelled'))
) {strict};

create index session_ready on session (queue, priority desc, updated_at) where status = 'ready';
create index session_running on session (lease_until) where status = 'running';
create index session_waiting on session (waiting_since) where status = 'waiting';
create index session_recent on session (updated_at);
create index session_by_owner on session (owner, updated_at) where owner is not null;
create index session_by_repository on session (repository, updated_at) where repository is not null;
create index session_children on session (parent_uid) where parent_uid is not null;
create index session_branches on session (forked_from) where forked_from is not null;

create table event_kind (
    kind text primary key not null,
    meaning text not null
) {strict};

insert into event_kind (kind, meaning) values
    ('session.created', 'the session began'),
    ('session.described', 'its title, owner, queue or priority changed'),
    ('session.parked', 'it waits and costs nothing'),
    ('session.released', 'its holder gave it back'),
    ('session.finished', 'it is done, failed or cancelled'),
    ('session.restarted', 'the program began anew'),
    ('session.sealed', 'it moved elsewhere'),
    ('lease.acquired', 'a worker may move it'),
    ('lease.taken_over', 'another worker may move it'),
    ('lease.expired', 'its holder fell silent'),
    ('cancel.requested', 'somebody asked it to stop'),
    ('pause.requested', 'somebody asked it to pause'),
    ('message', 'a line of the transcript'),
    ('note', 'something worth keeping'),
    ('event.erased', 'what an event said was forgotten'),
    ('wait.opened', 'it asked for something'),
    ('wait.resolved', 'it was given'),
    ('inbox.received', 'a message came in'),
    ('inbox.promoted', 'the message joined the transcript'),
    ('step.recorded', 'a step has its result'),
    ('task.added', 'the plan grew'),
    ('task.changed', 'the plan moved on'),
    ('decision.made', 'something was chosen, with a reason'),
    ('decision.settled', 'what came of it'),
    ('fact.remembered', 'something is known'),
    ('fact.verified', 'it was checked and still holds'),
    ('fact.forgotten', 'it is no longer known'),
    ('artifact.saved', 'something large was kept');

create table event (
    session_uid text not null references session (uid),
    number {int} not null check (number >= 1),
    kind text not null {references_kind},
    actor text not null,
    at {int} not null,
    effect_id text,
    move_id text not null,
    body text,
    salt text,
    digest text not null check (length(digest) = 64),
    chain text not null check (length(chain) = 64),
    primary key (session_uid, number),
    check ((body is null) = (salt is null))
) {strict};

create table wait (
    session_uid text not null references session (uid),
    id text not null,
    kind text not null check (
        kind in ('approval', 'input', 'timer', 'doubt', 'effect', 'lease', 'child', 'paused', 'program')
    ),
    ref text,
    detail text,
    due_at {int},
    since {int} not null,
    answer text,
    resolved_by text,
    resolved_at {int},
    primary key (session_uid, id),
    check (kind <> 'timer' or due_at is not null),
    check ((resolved_by is null) = (resolved_at is null)),
    check (answer is null or resolved_at is not null)
) {strict};

create index wait_due on wait (due_at) where resolved_at is null and due_at is not null;
create index wait_open on wait (kind, since) where resolved_at is null;
create index wait_ref on wait (ref) where resolved_at is null and ref is not null;

create table inbox (
    session_uid text not null references session (uid),
    id text not null,
    sequence {int} not null check (sequence >= 1),
    mode text not null check (mode in ('queue', 'steer')),
    body text not null,
    sender text not null,
    received_at {int} not null,
    promoted_as {int},
    primary key (session_uid, id),
    unique (session_uid, sequence),
    foreign key (session_uid, promoted_as) references event (session_uid, number)
) {strict};

create index inbox_unread on inbox (session_uid, sequence) where promoted_as is null;

create table step (
    session_uid text not null references session (uid),
    restart_number {int} not null,
    scope text not null,
    name text not null,
    argument_digest text not null,
    occurrence {int} not null check (occurrence >= 0),
    result text,
    artifact text,
    error text,
    number {int} not null,
    at {int} not null,
    primary key (session_uid, restart_number, scope, name, argument_digest, occurrence),
    check (result is null or artifact is null)
) {strict};

create table task (
    session_uid text not null references session (uid),
    id text not null,
    parent_id text,
    title text not null,
    state text not null check (state in ('open', 'active', 'blocked', 'done', 'dropped')),
    priority {int} not null,
    branch text,
    assigned_worker text,
    note text,
    created_at {int} not null,
    updated_at {int} not null,
    primary key (session_uid, id),
    foreign key (session_uid, parent_id) references task (session_uid, id),
    check (parent_id is null or parent_id <> id)
) {strict};

create index task_unfinished on task (session_uid, priority desc) where state in ('open', 'active', 'blocked');

create table decision (
    session_uid text not null references session (uid),
    id text not null,
    decision text not null check (decision <> ''),
    rationale text not null check (rationale <> ''),
    planned_action text,
    outcome text,
    decided_at {int} not null,
    settled_at {int},
    primary key (session_uid, id),
    check ((outcome is null) = (settled_at is null))
) {strict};

create index decision_incomplete on decision (session_uid, decided_at) where outcome is null;
create index decision_recent on decision (decided_at);

create table fact (
    scope text not null,
    key text not null,
    value text not null,
    version {int} not null check (version >= 1),
    verify text,
    session_uid text references session (uid),
    updated_by text not null,
    updated_at {int} not null,
    verified_at {int} not null,
    stale_after {int} check (stale_after is null or stale_after > 0),
    primary key (scope, key)
) {strict};

create index fact_by_session on fact (session_uid) where session_uid is not null;

create table lease (
    resource text primary key not null,
    holder text,
    nonce text,
    epoch {int} not null check (epoch >= 1),
    until {int},
    check ((nonce is null) = (until is null)),
    check ((nonce is null) = (holder is null))
) {strict};

create table checkpoint (
    session_uid text not null references session (uid),
    number {int} not null,
    codec text not null,
    fingerprint text not null,
    body text not null,
    created_at {int} not null,
    primary key (session_uid, number)
) {strict};

create table artifact (
    session_uid text not null references session (uid),
    digest text not null check (length(digest) = 64),
    kind text not null,
    size {int} not null check (size >= 0),
    location text not null,
    retention text not null check (retention in ('keep', 'session', 'short')),
    created_at {int} not null,
    primary key (session_uid, digest)
) {strict};

create index artifact_by_digest on artifact (digest);

create table worker (
    id text primary key not null,
    host text not null,
    boot_id text not null,
    pid {int} not null,
    start_token text not null,
    schema_from {int} not null,
    schema_to {int} not null,
    programs text not null,
    started_at {int} not null,
    seen_at {int} not null
) {strict};
