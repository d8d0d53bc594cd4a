"""Recovery: what is done with effects that an earlier run left unsettled, and the plan that shows it first."""
