"""scikit-learn estimators: bind a solver to ``fit`` and ``predict_proba``, nothing else."""
