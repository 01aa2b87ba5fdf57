//! What is refused of ResourceQuotas and LimitRanges.
