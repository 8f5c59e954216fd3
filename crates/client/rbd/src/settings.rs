//! Settings of images among the metadata of pools and images: which options of the configuration they may
//! override (those of `rbd config … list` in 16.2.15).

/// The prefix of settings' keys among the metadata of a pool or an image.
pub const METADATA_PREFIX: &str = "conf_";

/// An option whose change notifies the open images of a cluster that a pool's settings have changed.
pub const POOL_OVERRIDES_CHANGED: &str = "rbd_config_pool_override_update_timestamp";

const NOT_OF_POOLS: [&str; 11] = [
    "rbd_auto_exclusive_lock_until_manual_request",
    POOL_OVERRIDES_CHANGED,
    "rbd_default_format",
    "rbd_default_pool",
    "rbd_discard_on_zeroed_write_same",
    "rbd_mirror_pool_replayers_refresh_interval",
    "rbd_op_thread_timeout",
    "rbd_op_threads",
    "rbd_tracing",
    "rbd_validate_names",
    "rbd_validate_pool",
];

const NOT_OF_IMAGES: [&str; 9] = [
    "rbd_default_clone_format",
    "rbd_default_data_pool",
    "rbd_default_features",
    "rbd_default_order",
    "rbd_default_stripe_count",
    "rbd_default_stripe_unit",
    "rbd_journal_order",
    "rbd_journal_pool",
    "rbd_journal_splay_width",
];

/// Whether pools may override an option of images.
pub fn pools_override(option: &str) -> bool {
    option.starts_with("rbd_") && !NOT_OF_POOLS.contains(&option)
}

/// Whether images may override an option of images.
pub fn images_override(option: &str) -> bool {
    pools_override(option) && !NOT_OF_IMAGES.contains(&option) && !option.starts_with("rbd_mirror_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_override_some_of_what_pools_override() {
        assert!(images_override("rbd_cache") && pools_override("rbd_default_order"));
        assert!(!images_override("rbd_default_order") && !pools_override("rbd_op_threads"));
        assert!(!pools_override("mon_host") && !images_override("rbd_mirror_image_policy_type"));
    }
}
