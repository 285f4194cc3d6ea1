"""How we do it: the steps behind the estimators."""
