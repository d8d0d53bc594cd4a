"""Policy: a text that states what may be done, and the judgement of one call by it. Pure: no clock, no input or output.

`parse` reads the text and refuses one whose examples fail; `shipped` gives the policies that come with Perdure. `judge`
answers for one call. Where the text is kept, and that no call is dispatched under an old one, is decided elsewhere.
"""

from perdure.domain.policy.document import Budget, PolicyDocument, PolicyGate, PolicyRule, RuleExample
from perdure.domain.policy.facts import Facts
from perdure.domain.policy.judgement import Demand, Explanation, Judgement, explain, judge
from perdure.domain.policy.shipped import PROFILES, shipped, shipped_text
from perdure.domain.policy.text import parse

__all__ = [
    "Budget",
    "Demand",
    "Explanation",
    "Facts",
    "Judgement",
    "PROFILES",
    "PolicyDocument",
    "PolicyGate",
    "PolicyRule",
    "RuleExample",
    "explain",
    "judge",
    "parse",
    "shipped",
    "shipped_text",
]
