"""The effect ledger at work: plan, dispatch, run, settle and recover each effect."""
