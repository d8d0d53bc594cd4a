-- Uses never return, and an exemption never covers more than was granted.

create trigger exemption_use_is_kept before delete on exemption_use
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger exemption_use_never_changes before update on exemption_use
begin select raise(abort, 'perdure: what is on record never changes'); end;

create trigger exemption_is_kept before delete on exemption
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger exemption_is_granted_once before update on exemption
when new.used < old.used or old.revoked_at is not null and new.revoked_at is not old.revoked_at
    or (new.id, new.rule, new.granted_by, new.granted_at, new.reason)
        <> (old.id, old.rule, old.granted_by, old.granted_at, old.reason)
    or (new.session_uid, new.repository, new.owner, new.tool, new.intent_digest, new.uses, new.expires_at, new.grantor)
        is not
        (old.session_uid, old.repository, old.owner, old.tool, old.intent_digest, old.uses, old.expires_at, old.grantor)
begin select raise(abort, 'perdure: an exemption is granted once, and its uses never return'); end;
