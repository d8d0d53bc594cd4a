"""The questions, by name. A question that is not here cannot be asked by the command line or the service."""

from __future__ import annotations

from perdure.errors import NotFound
from perdure.store.audit.columns import COLUMNS
from perdure.store.audit.question import AuditParameter, AuditPlan, AuditQuestion

TOOL = AuditParameter("tool", "only this tool")
PERSON = AuditParameter("person", "only this person, by the name or the identity on record")
OWNER = AuditParameter("owner", "only this owner")
RULE = AuditParameter("rule", "only this rule")
SESSION = AuditParameter("session", "this session, by its id or a prefix of it", "session")
EFFECT = AuditParameter("effect", "this effect, by its id or a prefix of it", "effect")
COMMIT = AuditParameter("commit", "the edits that this commit of an agent has, by its hash or the beginning", "commit")
TARGET = AuditParameter("target", 'a target such as "branch:main", or a prefix such as "path:deploy/*"', "target")

SHORT = ("until", "key_a")
NEWEST = ("until", "key_a", "key_b")
LONG = ("until", "key_a", "key_b", "key_c")
EVENTS = ("until", "key_a", "number")
OLDEST = ("since", "key_a", "key_b")
COUNTED = ("count", "key_a")


def _question(
    name: str,
    sentence: str,
    columns: str,
    *plans: AuditPlan,
    parameters: tuple[AuditParameter, ...] = (),
    ranged: str = "the time of each row",
) -> AuditQuestion:
    named = tuple(COLUMNS[column] for column in columns.split())
    return AuditQuestion(name=name, sentence=sentence, columns=named, parameters=parameters, plans=plans, ranged=ranged)


def _plan(statement: str, *indexes: str, key: tuple[str, ...] = NEWEST, needs: tuple[str, ...] = ()) -> AuditPlan:
    return AuditPlan(statement, indexes, key, needs)


ALLOWED = (
    "at session effect tool targets state policy rule exemption granted_by approval decision voter identity because"
)
TOUCHED = "at session target tool effect reach state reference owner"
READ = "at identity action session subject detail"

_ALL = (
    _question(
        "failed-runs", "Which runs failed in which tool?",
        "at session status tool effect error owner repository",
        _plan("audit.failed_runs", "effect_failed"), parameters=(TOOL,), ranged="when the effect failed",
    ),
    _question(
        "failed-sessions", "Which sessions have failed, and why?",
        "at session program error retries crashes owner repository",
        _plan("audit.failed_sessions", "session_ended_badly", key=SHORT), parameters=(OWNER,),
        ranged="when the session last changed",
    ),
    _question(
        "waiting", "Which sessions wait for a person, since when? The longest wait is first.",
        "since session waits_for title owner repository wait",
        _plan("audit.waiting", "wait_open", key=OLDEST),
        parameters=(AuditParameter("kind", "only this kind of wait, such as approval"),), ranged="since when it waits",
    ),
    _question(
        "retries", "In which repositories are sessions retried and effects repeated most?",
        "repository retries repeats sessions last",
        _plan("audit.retries", "event_of_incident", "attempt_repeated", key=COUNTED),
        ranged="when it was retried or repeated",
    ),
    _question(
        "exemptions", "Which exemptions were granted, by whom, and how often were they used?",
        "at exemption rule session repository owner tool granted_by grantor because used uses expires_at revoked_at "
        "revoked_by",
        _plan("audit.exemptions", "exemption_by_time", key=SHORT), parameters=(RULE, PERSON),
        ranged="when it was granted",
    ),
    _question(
        "targets", "What touched a branch, a file or another target?", TOUCHED,
        _plan("audit.targets_in_range", "effect_by_time", key=LONG, needs=("target", "prefix", "since")),
        _plan("audit.targets_with_prefix", "effect_target_by_name", key=LONG, needs=("target", "prefix")),
        _plan("audit.targets", "effect_target_by_name", needs=("target",)), parameters=(TARGET,),
        ranged="when the effect was planned",
    ),
    _question(
        "outside", "Which actions left the machine, or may have?",
        "at session effect tool targets state reference key rule approval owner",
        _plan("audit.outside", "effect_by_time"), parameters=(TOOL,), ranged="when the effect was planned",
    ),
    _question(
        "reach", "How far did effects reach, and how did they end?", "reach state effects",
        _plan("audit.reach", "effect_by_time", key=("key_a", "key_b")), ranged="when the effect was planned",
    ),
    _question(
        "approvals", "Which approvals were asked for, and who voted how, and why?",
        "at session approval tool effect gate requester decision vote voter identity because decided_at",
        _plan("audit.approvals", "approval_by_time", key=LONG), parameters=(PERSON,),
        ranged="when it was asked for",
    ),
    _question(
        "who-approved", "Who or what allowed these edits? Of a session, an effect, a commit or a target.",
        ALLOWED,
        _plan("audit.who_approved_since", "effect_by_time", key=COUNTED, needs=("session", "since")),
        _plan("audit.who_approved", "effect_by_number", key=COUNTED, needs=("session",)),
        _plan("audit.who_approved_effect", "effect_by_id", key=("key_a", "key_b"), needs=("effect",)),
        _plan("audit.who_approved_commit", "effect_of_commit", key=("key_a", "number", "key_b"), needs=("commit",)),
        _plan("audit.who_approved_in_range", "effect_by_time", key=LONG, needs=("target", "prefix", "since")),
        _plan("audit.who_approved_prefix", "effect_target_by_name", key=LONG, needs=("target", "prefix")),
        _plan("audit.who_approved_target", "effect_target_by_name", key=LONG, needs=("target",)),
        parameters=(SESSION, EFFECT, COMMIT, TARGET), ranged="when the effect was planned",
    ),
    _question(
        "doubts", "Which effects have an outcome that is not known, since when? The longest doubt is first.",
        "since session effect tool targets doubt owner",
        _plan("audit.doubts", "effect_in_doubt", key=OLDEST), ranged="since when it is in doubt",
    ),
    _question(
        "verdicts", "What did people say of effects in doubt?",
        "at session effect tool said by who reason state",
        _plan("audit.verdicts", "event_of_incident", key=EVENTS), parameters=(PERSON,), ranged="when it was said",
    ),
    _question(
        "repeated", "Which effects were dispatched again, and why?",
        "at session effect tool replay attempt worker before error why outcome",
        _plan("audit.repeated", "attempt_repeated", "event_of_recovery", key=(*NEWEST, "number")), parameters=(TOOL,),
        ranged="when it was dispatched again",
    ),
    _question(
        "inherited", "What did a resumed or forked session take over?",
        "at how from effect tool reach was state reference why",
        _plan("audit.inherited", "event_of_recovery", key=("since", "key_a", "number"), needs=("session",)),
        parameters=(SESSION,), ranged="when the effect was planned, or recovery decided",
    ),
    _question(
        "refused", "Which calls were not allowed, and by which rule?",
        "at session effect tool targets rule policy error owner",
        _plan("audit.refused", "effect_refused"), parameters=(RULE,), ranged="when it was refused",
    ),
    _question(
        "controls", "Which controls fired, and what did they catch?",
        "control fired refused approved denied expired waiting lifted last",
        _plan(
            "audit.controls", "effect_refused", "approval_by_time", "effect_by_time", "wait_of_control", key=COUNTED
        ),
        ranged="when the control fired",
    ),
    _question(
        "incidents", "What went wrong before, and what was done about it?",
        "at session what effect tool by why state verdict verdict_by status",
        _plan("audit.incidents", "event_of_incident", "effect_failed", key=EVENTS), ranged="when it happened",
    ),
    _question(
        "removals", "Which sessions were removed, and which events were erased?",
        "at session what by who reason",
        _plan("audit.removals", "event_of_incident", key=EVENTS), ranged="when it was removed or erased",
    ),
    _question(
        "costs", "What did models cost, by owner, model and day?",
        "day owner model sessions calls tokens_in tokens_out cost",
        _plan("audit.costs", "model_usage_pkey"), parameters=(OWNER, AuditParameter("model", "only this model")),
        ranged="the day: whole days count",
    ),
    _question(
        "access", "Who read or exported a session?", READ,
        _plan("audit.access_of_session", "access_of_session", key=SHORT, needs=("session",)),
        _plan("audit.access", "access_by_time", key=SHORT),
        parameters=(SESSION, PERSON, AuditParameter("action", "only this: export, artifact, transcript or approval")),
        ranged="when it was read",
    ),
    _question(
        "changes", "Who changed the policy, principals, tokens, queues, schedules or limits?",
        "at number change by who body",
        _plan("audit.changes", "control_event_by_time", key=("until", "number")),
        parameters=(AuditParameter("kind", "only this kind of change, such as policy.set"), PERSON),
        ranged="when it was changed",
    ),
)  # fmt: skip

QUESTIONS: dict[str, AuditQuestion] = {one.name: one for one in _ALL}


def find(name: str) -> AuditQuestion:
    """A question by its name."""
    if (found := QUESTIONS.get(name)) is None:
        raise NotFound(f"There is no question {name!r}.", hint="`perdure audit` lists the questions.")
    return found
