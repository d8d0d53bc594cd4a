-- What the database itself refuses of them.

create trigger effect_keeps_its_leases before update of leases on effect for each row
when (new.leases is distinct from old.leases)
execute function perdure_refuse('an effect keeps its leases');

create trigger restore_is_released_once before update on restore for each row
when (old.released_at is not null or new.epoch <> old.epoch or new.began_at <> old.began_at
    or new.rewound_to <> old.rewound_to)
execute function perdure_refuse('a restore is released once');

create trigger restore_is_kept before delete on restore
for each row execute function perdure_refuse('a restore is never forgotten');
