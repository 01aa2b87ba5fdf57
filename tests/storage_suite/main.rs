//! The storage suite: the required behaviour of every implementation of `Storage`, on `Underlying`
//! and on `Cached`, over every engine (storage.md 6a; TS- numbers in the names of the checks).
//!
//! A new engine is a variant of `harness::EngineKind`. No check changes for it.
//!
//! No check cites these rules, because an implementation cannot break them: ST-1 (the trait),
//! ST-32, ST-40 and ST-50 (objects are moved in, results are returned), ST-76 (the engine's
//! `compacted`, in the engine suite), ST-77 (the engine suite runs on etcd) and KV-7 (an object has
//! one key, whatever part of it is written). `tests/deviations.md` has those of lists and watches.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admission;
mod chained;
mod dry_run;
mod foreign;
mod forms;
mod harness;
mod leases;
mod list;
mod selected;
#[path = "../servers/mod.rs"]
mod servers;
mod store;
mod watch;

/// Makes a test of each check on each layer.
macro_rules! on_every_layer {
    (
        @layer $name:ident, $kind:ident, $engine:expr,
        $($module:ident::{$($check:ident),* $(,)?}),* $(,)?
    ) => {
        mod $name {
            use crate::harness::{EngineKind, Kind, Layer};

            const LAYER: Layer = Layer {
                kind: Kind::$kind,
                engine: $engine,
            };

            $($(
                #[test]
                fn $check() {
                    crate::harness::run(LAYER, crate::$module::$check);
                }
            )*)*
        }
    };
    ($($checks:tt)*) => {
        on_every_layer!(@layer underlying_memory, Underlying, EngineKind::Memory, $($checks)*);
        on_every_layer!(@layer underlying_embedded, Underlying, EngineKind::Embedded, $($checks)*);
        on_every_layer!(
            @layer underlying_etcd_3_4, Underlying, EngineKind::Etcd("3.4"), $($checks)*
        );
        on_every_layer!(
            @layer underlying_etcd_3_5, Underlying, EngineKind::Etcd("3.5"), $($checks)*
        );
        on_every_layer!(
            @layer underlying_etcd_3_6, Underlying, EngineKind::Etcd("3.6"), $($checks)*
        );
        on_every_layer!(@layer cached_memory, Cached, EngineKind::Memory, $($checks)*);
        on_every_layer!(@layer cached_embedded, Cached, EngineKind::Embedded, $($checks)*);
        on_every_layer!(@layer cached_etcd_3_4, Cached, EngineKind::Etcd("3.4"), $($checks)*);
        on_every_layer!(@layer cached_etcd_3_5, Cached, EngineKind::Etcd("3.5"), $($checks)*);
        on_every_layer!(@layer cached_etcd_3_6, Cached, EngineKind::Etcd("3.6"), $($checks)*);
    };
}

on_every_layer! {
    store::{
        ts_1_create_answers_the_object_and_stores_no_version,
        ts_3_create_of_an_existing_key_is_refused,
        ts_4_get_is_not_older_than_asked,
        ts_5_unconditional_delete_answers_the_last_content_at_a_new_version,
        ts_6_conditional_delete,
        ts_7_delete_with_a_current_suggestion,
        ts_8_delete_with_a_stale_suggestion_answers_the_newest_content,
        ts_9_a_change_during_validation_validates_again,
        ts_10_delete_with_a_suggestion_of_a_deleted_object,
        ts_11_a_failing_validation_is_checked_on_fresh_data,
        ts_12_validation_passing_only_on_the_suggestion,
        ts_13_precondition_failing_only_on_the_suggestion,
        ts_14_precondition_passing_only_on_the_suggestion,
        ts_24_guaranteed_update,
        ts_26_update_compares_stored_bytes,
        ts_27_the_loser_of_a_race_is_called_twice,
        ts_28_errors_on_stale_suggestions_are_hidden,
        st_53_an_object_is_left_only_in_its_current_state,
        ts_29_transformation_failures,
        st_52_a_precondition_that_fails_on_a_suggestion_is_checked_on_the_state,
        ts_30_stats_follow_creates_and_deletes,
        ts_34_keys_are_checked_by_every_method,
        st_64_many_writers_of_one_key_lose_nothing,
        st_56_a_stale_value_is_written_anew,
        st_30_what_was_written_is_decoded_once,
        st_51_an_update_of_a_hot_key_that_is_deleted_finds_nothing,
        st_34_what_was_acknowledged_is_read_at_once,
        st_61_updates_see_the_current_version_and_answer_the_new_one,
    },
    chained::{
        st_58_updates_build_on_what_is_not_durable_yet_and_lose_nothing,
        st_53_an_end_without_a_write_waits_until_its_state_is_durable,
        st_58_a_failed_commit_takes_its_successors_back_to_the_durable_state,
        api_102_an_update_of_one_version_neither_waits_nor_builds_on_others,
    },
    admission::{
        st_59_plugins_that_need_durable_objects_see_no_queued_ones,
    },
    selected::{
        li_39_a_list_by_a_field_is_the_selected_part_of_everything,
    },
    list::{
        ts_15_versions_that_are_none_or_in_the_future,
        ts_15b_exact_lists_show_each_state,
        ts_15d_pages_of_exact_lists_count_what_remains,
        ts_15e_tokens_continue_at_their_version,
        ts_15f_a_negative_token_continues_at_the_newest_state,
        ts_15i_pages_with_selectors,
        ts_15j_not_older_than_honours_the_limit,
        ts_16_consistent_lists_have_the_stores_revision,
        ts_17_lists_of_one_key,
        ts_18_prefixes_end_at_slashes,
        ts_19_continuation,
        ts_20_paging_to_a_rare_object,
        ts_21_continuation_with_a_filter,
        ts_22_an_expired_token_comes_with_a_fresh_one,
        ts_23_exact_at_a_lists_version_repeats_it,
        ts_31_objects_created_while_paging_stay_out,
        ts_32_namespace_scoped_lists,
        ts_33_compaction_ends_exact_reads,
        li_46_any_state_ignores_the_limit_in_the_cache,
        li_18_items_carry_their_own_versions,
        li_30_later_pages_show_the_state_of_the_first_whatever_is_written,
        li_23_a_list_never_claims_more_than_it_shows,
        li_20_to_31_the_whole_matrix_of_versions_limits_and_tokens,
        li_20_a_cache_that_lags_is_waited_for_and_then_passed_by,
        li_34_what_the_cache_serves_costs_the_store_no_read,
    },
    watch::{
        ts_50_selectors_turn_updates_into_added_and_deleted,
        ts_50_neighbouring_namespaces_never_leak,
        ts_51_watch_from_zero_and_from_a_compacted_version,
        ts_52_delete_triggers_a_watch,
        ts_53_watch_from_a_version_shows_only_what_is_later,
        ts_54_events_queue_up_in_order,
        ts_55_an_unreadable_event_ends_the_watch,
        ts_57_a_dropped_watch_is_forgotten,
        ts_59_deleted_events_carry_the_deletions_version,
        ts_62_63_scopes,
        ts_62_63_every_scope_and_selector_agrees_with_a_plain_model,
        ts_66_initial_events_without_bookmarks,
        ts_67_watch_semantics,
        ts_68_the_end_bookmark_covers_other_namespaces,
        ts_69_initial_events_of_one_name,
        wa_2_a_watch_ends_at_its_deadline,
        wa_10_a_watch_from_the_future_skips_what_is_older,
        wa_17_initial_events_from_the_future_are_refused,
        ts_64_65_bookmarks_cover_what_was_sent,
        wa_15_the_end_bookmark_never_claims_more_than_was_sent,
        wa_47_a_bookmark_that_is_due_waits_for_the_end_of_the_initial_events,
        wa_18_the_state_and_what_follows_join_without_a_gap,
        wc_42_while_the_cache_fills_some_reads_are_refused_and_no_writes,
    },
    leases::{
        ts_2_wa_23_what_is_created_to_live_a_second_is_deleted_by_itself,
        ts_25_wa_23_what_is_updated_to_live_a_second_is_deleted_by_itself,
        st_57_pf_5_an_update_without_a_ttl_makes_the_object_permanent,
        st_55_pf_5_op_5_an_update_that_changes_nothing_keeps_the_lease,
        op_1_objects_share_a_lease_and_take_another_when_it_is_gone,
    },
    foreign::{
        li_40_a_page_ends_before_a_value_that_cannot_be_read_and_counts_it,
        pf_20_a_value_that_cannot_be_read_fails_what_shows_it_and_nothing_else,
        kv_21_a_value_that_cannot_be_read_is_never_lost_nor_overwritten,
        rg_15_a_value_that_cannot_be_read_is_deleted_by_its_name,
        wa_33_watches_end_with_an_error_where_a_value_cannot_be_read,
        ts_29_values_that_cannot_be_transformed_are_never_deleted,
    },
    forms::{
        kv_23_what_was_stored_in_another_form_is_read_and_rewritten_by_updates,
        kv_23_values_of_kube_apiserver_are_read_and_rewritten,
    },
    dry_run::{
        st_80_create,
        st_81_delete,
        st_82_update,
        st_83_reads_are_what_they_are,
    },
}
