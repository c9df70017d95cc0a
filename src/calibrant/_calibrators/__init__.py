"""scikit-learn estimators: a class binds a solver to ``fit``, or is made of several others."""
