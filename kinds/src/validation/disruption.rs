//! What is refused of PodDisruptionBudgets.
