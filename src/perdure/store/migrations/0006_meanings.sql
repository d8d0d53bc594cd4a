-- phase: expand
-- compatible_from: 5
-- The meanings of event kinds and wait kinds in plainer words. Only these texts change; no code reads them.

update event_kind set meaning = 'the session was created' where kind = 'session.created';
update event_kind set meaning = 'the title, owner, queue or priority changed' where kind = 'session.described';
update event_kind set meaning = 'the session waits and no worker holds it' where kind = 'session.parked';
update event_kind set meaning = 'the session is ready for any worker' where kind = 'session.released';
update event_kind set meaning = 'the session is done, failed or cancelled' where kind = 'session.finished';
update event_kind set meaning = 'the program was restarted' where kind = 'session.restarted';
update event_kind set meaning = 'the session was moved to another store' where kind = 'session.sealed';
update event_kind set meaning = 'a worker acquired the lease' where kind = 'lease.acquired';
update event_kind set meaning = 'another worker took over the lease' where kind = 'lease.taken_over';
update event_kind set meaning = 'the lease holder stopped renewing' where kind = 'lease.expired';
update event_kind set meaning = 'another server took over; the session lost nothing and its holder keeps the lease' where kind = 'lease.kept';
update event_kind set meaning = 'cancel requested' where kind = 'cancel.requested';
update event_kind set meaning = 'pause requested, or the request withdrawn' where kind = 'pause.requested';
update event_kind set meaning = 'a message of the transcript' where kind = 'message';
update event_kind set meaning = 'a note for the reader of the log' where kind = 'note';
update event_kind set meaning = 'the bodies of events were erased' where kind = 'event.erased';
update event_kind set meaning = 'the session waits for something' where kind = 'wait.opened';
update event_kind set meaning = 'a wait was resolved' where kind = 'wait.resolved';
update event_kind set meaning = 'a message was received' where kind = 'inbox.received';
update event_kind set meaning = 'a message joined the transcript' where kind = 'inbox.promoted';
update event_kind set meaning = 'the result of a step was recorded' where kind = 'step.recorded';
update event_kind set meaning = 'a task was added to the plan' where kind = 'task.added';
update event_kind set meaning = 'a task of the plan changed' where kind = 'task.changed';
update event_kind set meaning = 'a decision was recorded with its reason' where kind = 'decision.made';
update event_kind set meaning = 'the outcome of a decision was recorded' where kind = 'decision.settled';
update event_kind set meaning = 'a fact was recorded' where kind = 'fact.remembered';
update event_kind set meaning = 'a fact was checked and still holds' where kind = 'fact.verified';
update event_kind set meaning = 'a fact was removed' where kind = 'fact.forgotten';
update event_kind set meaning = 'an artifact was saved' where kind = 'artifact.saved';
update event_kind set meaning = 'an action on an outside system is planned' where kind = 'effect.planned';
update event_kind set meaning = 'an attempt at the action may have begun' where kind = 'effect.dispatched';
update event_kind set meaning = 'the action happened' where kind = 'effect.acknowledged';
update event_kind set meaning = 'the action did not happen, or was given up' where kind = 'effect.failed';
update event_kind set meaning = 'the outcome of the attempt is unknown' where kind = 'effect.unknown';
update event_kind set meaning = 'the action was found not to have happened' where kind = 'effect.absent';
update event_kind set meaning = 'the action is not allowed or no longer wanted' where kind = 'effect.refused';
update event_kind set meaning = 'the action was undone' where kind = 'effect.compensated';
update event_kind set meaning = 'another action replaces it' where kind = 'effect.superseded';
update event_kind set meaning = 'a person is asked for the outcome of the action' where kind = 'effect.doubted';
update event_kind set meaning = 'a person recorded the outcome of the action' where kind = 'effect.settled';
update event_kind set meaning = 'the process that acted has ended' where kind = 'effect.ended';
update event_kind set meaning = 'an outcome arrived too late to count' where kind = 'effect.late_outcome';
update event_kind set meaning = 'recovery decided about the action, with its evidence' where kind = 'effect.recovered';
update event_kind set meaning = 'undo requested' where kind = 'effect.undo_requested';
update event_kind set meaning = 'the action could not be undone' where kind = 'effect.undo_failed';
update event_kind set meaning = 'the store was restored from a backup; the action may have happened already' where kind = 'effect.presumed';
update event_kind set meaning = 'a person voted on an approval' where kind = 'approval.voted';
update event_kind set meaning = 'an approval was decided' where kind = 'approval.decided';
update event_kind set meaning = 'a branch was created' where kind = 'session.forked';
update event_kind set meaning = 'a child session was created' where kind = 'child.started';

update wait_kind set meaning = 'a person must record the outcome of an effect' where kind = 'doubt';
update wait_kind set meaning = 'a person must resume the session' where kind = 'paused';
update wait_kind set meaning = 'a worker that has the program of the session' where kind = 'program';
update wait_kind set meaning = 'a person must examine a session whose workers crashed' where kind = 'quarantine';
