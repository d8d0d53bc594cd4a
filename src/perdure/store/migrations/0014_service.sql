-- phase: expand
-- compatible_from: 10
-- The service: tokens of principals, and the requests that were carried out.

create table token (
    id text primary key not null check (id <> ''),
    digest text not null check (length(digest) = 64), -- SHA-256 of the secret, which is not stored
    principal_uid text not null references principal (uid),
    label text not null, -- what it is for
    scopes text not null, -- JSON: what it may touch; none: nothing
    created_by text not null check (created_by <> ''),
    created_at {int} not null,
    expires_at {int}, -- null: when it is revoked
    rotated_to text, -- the token that replaces it; it is valid until it expires
    revoked_at {int},
    revoked_by text,
    used_at {int}, -- to the minute
    check ((revoked_at is null) = (revoked_by is null))
) {strict};

create index token_of_principal on token (principal_uid);

create table request (
    caller text not null check (caller <> ''), -- the principal, or the identity of a caller without one
    idempotency_key text not null check (idempotency_key <> ''),
    operation text not null,
    digest text not null, -- of what was asked
    ids text not null, -- JSON: what the answer is made from again
    state text not null check (state in ('begun', 'done')),
    move_id text not null, -- that it was committed with
    at {int} not null,
    primary key (caller, idempotency_key)
) {strict};

create index request_by_time on request (at);

create table sign_in (
    id text primary key not null check (length(id) = 64), -- SHA-256 of what the browser has, which is not stored
    identity text not null check (identity <> ''), -- token:ID, oidc:SUBJECT or os:UID
    began_at {int} not null,
    expires_at {int} not null,
    check (began_at < expires_at)
) {strict};

create index sign_in_by_end on sign_in (expires_at);
