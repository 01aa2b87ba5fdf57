//! The engine suite: the required behaviour of every storage engine.
//!
//! A check is an async function that takes a [`subjects::Subject`] and does not know its engine.
//! The list at the end of this file runs all checks on all engines. A new engine is a new
//! constructor in `subjects.rs` and a line in `on_every_engine!`. Numbers such as ST-41 are those
//! of `docs/behaviour`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod over_etcd;
#[path = "../servers/mod.rs"]
mod servers;
mod shared_progress;
mod shared_watches;
mod subjects;

/// Makes a test of every check on every engine.
macro_rules! on_every_engine {
    ($($theme:ident { $($check:ident),* $(,)? })*) => {
        on_engine!(memory, memory, $($theme { $($check),* })*);
        on_engine!(embedded, embedded, $($theme { $($check),* })*);
        on_etcd!(etcd_3_4, "3.4", $($theme { $($check),* })*);
        on_etcd!(etcd_3_5, "3.5", $($theme { $($check),* })*);
        on_etcd!(etcd_3_6, "3.6", $($theme { $($check),* })*);
        on_etcd!(our_etcd, "taffrail", $($theme { $($check),* })*);
    };
}

/// Makes a test of every check on engines with a log of their own. These know the cause and time of
/// an event, its size, and the effect of retention.
macro_rules! on_every_log {
    ($($theme:ident { $($check:ident),* $(,)? })*) => {
        on_engine!(memory_log, memory, $($theme { $($check),* })*);
        on_engine!(embedded_log, embedded, $($theme { $($check),* })*);
    };
}

macro_rules! on_etcd {
    ($engine:ident, $version:literal, $($theme:ident { $($check:ident),* $(,)? })*) => {
        mod $engine {
            $(mod $theme {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    if let Some(subject) = crate::subjects::etcd($version).await {
                        crate::checks::$theme::$check(subject).await;
                    }
                })*
            })*
        }
    };
}

macro_rules! on_engine {
    ($engine:ident, $make:ident, $($theme:ident { $($check:ident),* $(,)? })*) => {
        mod $engine {
            $(mod $theme {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    crate::checks::$theme::$check(crate::subjects::$make()).await;
                })*
            })*
        }
    };
}

on_every_engine! {
    commits {
        a_create_stores_under_an_absent_key_only_st_30,
        an_update_needs_the_revision_it_was_computed_from_st_58,
        a_refusal_shows_the_current_value_or_that_there_is_none_st_41_st_58,
        a_delete_has_a_revision_of_its_own_pf_1,
        versions_count_puts_since_the_key_came_into_being,
        a_deleted_key_can_be_created_again,
        nothing_is_deleted_under_an_absent_key,
        revisions_strictly_increase_over_all_keys_and_writers,
        queued_mutations_follow_each_other_before_they_are_durable_st_58,
        nothing_follows_a_mutation_that_failed_st_58,
        of_rivals_for_one_revision_exactly_one_wins_st_58,
        empty_and_large_values_come_back_as_they_were,
        what_is_too_large_is_refused_and_nothing_is_done,
        dropping_the_future_does_not_cancel_the_commit,
    }
    reads {
        an_absent_key_is_no_error_and_comes_with_the_store_revision_st_21,
        a_get_at_a_revision_sees_the_value_of_then,
        the_future_is_refused_with_the_current_revision_li_11,
        a_range_is_in_key_order_whatever_the_order_of_creation_li_37,
        a_range_ends_at_its_prefix_and_no_sibling_leaks_pf_18,
        an_empty_range_comes_with_the_store_revision_pf_6,
        limit_count_and_more_fit_together_li_14,
        pages_that_begin_anywhere_count_all_that_follows_li_14,
        pages_at_one_revision_see_neither_later_puts_nor_deletes_li_13_li_45,
        a_start_that_names_no_key_begins_at_the_next,
        counting_alone_returns_no_items_st_74,
        a_large_range_may_come_in_parts_and_loses_nothing,
        a_read_after_an_acknowledged_commit_sees_it,
        every_past_state_equals_the_fold_of_the_log,
    }
    feeds {
        a_feed_delivers_each_event_once_and_in_order,
        a_feed_from_the_past_has_no_gap_to_the_present,
        a_feed_at_the_newest_revision_delivers_only_what_comes,
        a_feed_from_the_future_delivers_nothing_up_to_its_start_wa_10,
        a_feed_keeps_to_its_prefix_wa_24,
        a_feed_that_does_not_read_loses_nothing_and_hinders_nobody,
        many_feeds_and_writers_agree_on_one_order,
        a_deletion_is_fed_with_its_own_revision_pf_1,
        a_feed_from_a_compacted_revision_is_refused_wa_32,
    }
    history {
        history_has_previous_values_and_every_event,
        history_comes_in_chunks_that_join_without_gap,
        history_ends_at_the_present_even_if_more_is_asked,
        history_of_a_quiet_prefix_reaches_the_end,
        history_of_a_quiet_prefix_in_a_long_log_is_whole,
        history_before_the_horizon_is_refused_wa_32,
    }
    compaction {
        a_compacted_revision_can_be_read_and_older_ones_not_li_50_op_13,
        compaction_keeps_what_is_alive,
        previous_values_survive_as_long_as_their_events,
        compacting_the_future_is_refused_and_the_past_is_no_error,
        compacting_up_to_the_newest_revision_leaves_the_state,
    }
    positions {
        the_position_is_the_stores_and_not_the_prefixs_st_70_pf_28,
        a_quiet_prefix_stays_where_its_last_event_was,
        the_position_covers_every_acknowledged_commit_st_70,
    }
    leases {
        a_put_replaces_the_lease_and_without_one_detaches_it_st_57,
        keys_go_when_their_lease_runs_out_each_by_an_event_wa_23,
        a_key_whose_lease_was_taken_away_stays_pf_5,
        a_key_lives_as_long_as_the_lease_of_its_newest_put_op_4,
        a_key_that_was_deleted_is_detached,
        a_put_that_names_a_lease_that_is_gone_is_refused_and_nothing_is_done,
        a_refusal_comes_before_the_lease_is_looked_at_st_58,
        revoking_deletes_before_it_answers_and_only_once,
        a_lease_without_keys_vanishes_when_its_time_is_over,
        a_lease_is_granted_for_at_least_so_long_and_its_number_is_its_own_op_2,
        expiry_has_nothing_to_do_before_anything_is_due,
        many_keys_go_in_steps_and_none_is_left_or_deleted_twice,
        compaction_forgets_no_lease_that_is_alive,
        readers_and_writers_go_on_while_keys_expire,
    }
    lifecycle {
        a_closed_engine_answers_closed_and_ends_feeds,
        a_fresh_engine_serves_and_is_empty,
    }
}

on_every_log! {
    commits {
        origin_and_time_are_kept,
    }
    feeds {
        feeds_see_an_event_before_its_commit_is_acknowledged,
    }
    compaction {
        compaction_removes_what_was_superseded,
        removal_in_steps_changes_no_answer,
        a_deleted_key_is_forgotten_entirely,
        the_horizon_follows_age_and_bytes,
    }
    lifecycle {
        stats_follow_puts_and_deletes_st_74,
    }
}
