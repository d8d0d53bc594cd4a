-- phase: expand
-- compatible_from: 3
-- What every move pays for and nobody needs. No query reads effects by this index, and every dispatch and every settle
-- wrote to it.

drop index effect_by_tool;
