-- What the database itself refuses of them.

create trigger effect_keeps_its_leases before update of leases on effect
when new.leases is not old.leases
begin select raise(abort, 'perdure: an effect keeps its leases'); end;

create trigger restore_is_released_once before update on restore
when old.released_at is not null or new.epoch <> old.epoch or new.began_at <> old.began_at
    or new.rewound_to <> old.rewound_to
begin select raise(abort, 'perdure: a restore is released once'); end;

create trigger restore_is_kept before delete on restore
begin select raise(abort, 'perdure: a restore is never forgotten'); end;
