//! What is refused of PriorityClasses and RuntimeClasses.
