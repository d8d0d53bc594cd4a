-- phase: expand
-- compatible_from: 10
-- Waits for a budget or for the policy by time, for those who ask which controls fired.

create index wait_of_control on wait (since) where kind in ('budget', 'policy');
