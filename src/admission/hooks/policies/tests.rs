//! Policies over facts (HK-53 to HK-59, HK-66 to HK-70, HK-84 to HK-90).
