"""How volumes compare: which steps are valid, what disturbed them, comparisons, effects of factors."""
