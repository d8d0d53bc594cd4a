-- phase: contract
-- compatible_from: 8
-- Code of schema 7 reads sessions that are ready along this index, and code of schema 8 does not: it is removed when no
-- worker of schema 7 is left.

drop index session_ready;
