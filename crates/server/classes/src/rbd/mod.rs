//! Class `rbd`: the metadata of images.
//!
//! An image consists of a header object (`rbd_header.ID`) whose omap holds its size, features, snapshots
//! and parent; an object `rbd_id.NAME` that holds its id; entries in the pool's `rbd_directory`; and,
//! with the feature of that name, an object map for the image and each snapshot. librbd and krbd access
//! all of these only through this class. Facts: `cls/rbd/cls_rbd.cc`, `cls_rbd.h`, `cls_rbd_types.h`,
//! `include/rbd_types.h`.
//!
//! An image of the first format is an object `NAME.rbd` whose bytes hold all of that (`old.rs`).
//!
//! Methods that only a mirroring daemon uses (to report the state of images, register instances and
//! distribute images) are not implemented and return EOPNOTSUPP.

mod children;
mod data;
mod directory;
mod group;
mod image;
mod metadata;
mod migration;
mod mirror;
mod object_map;
mod old;
mod parent;
mod peers;
mod snapshot;
mod trash;
mod types;

use bytes::Bytes;
use loligo_wire::rbd::{feature, op_feature};
use loligo_wire::{Errno, SnapId};

use crate::class::{Class, Outcome, rd, rw};
use crate::handle::Handle;

pub(crate) static CLASS: Class = Class {
    name: "rbd",
    methods: &[
        // The header.
        rw("create", |o, i| given(image::create(o, i))),
        rd("get_all_features", |o, i| given(image::get_all_features(o, i))),
        rd("get_features", |o, i| given(image::get_features(o, i))),
        rw("set_features", |o, i| given(image::set_features(o, i))),
        rd("op_features_get", |o, i| given(image::op_features_get(o, i))),
        rw("op_features_set", |o, i| given(image::op_features_set(o, i))),
        rd("get_size", |o, i| given(image::get_size(o, i))),
        rw("set_size", |o, i| given(image::set_size(o, i))),
        rd("get_flags", |o, i| given(image::get_flags(o, i))),
        rw("set_flags", |o, i| given(image::set_flags(o, i))),
        rd("get_object_prefix", |o, i| given(image::get_object_prefix(o, i))),
        rd("get_data_pool", |o, i| given(image::get_data_pool(o, i))),
        rd("get_stripe_unit_count", |o, i| given(image::get_stripe_unit_count(o, i))),
        rw("set_stripe_unit_count", |o, i| given(image::set_stripe_unit_count(o, i))),
        rd("get_create_timestamp", |o, i| given(image::get_create_timestamp(o, i))),
        rd("get_access_timestamp", |o, i| given(image::get_access_timestamp(o, i))),
        rd("get_modify_timestamp", |o, i| given(image::get_modify_timestamp(o, i))),
        rw("set_access_timestamp", |o, i| given(image::set_access_timestamp(o, i))),
        rw("set_modify_timestamp", |o, i| given(image::set_modify_timestamp(o, i))),
        rd("metadata_list", |o, i| given(metadata::list(o, i))),
        rd("metadata_get", |o, i| given(metadata::get(o, i))),
        rw("metadata_set", |o, i| given(metadata::set(o, i))),
        rw("metadata_remove", |o, i| given(metadata::remove(o, i))),
        // Its snapshots.
        rd("get_snapcontext", |o, i| given(snapshot::get_snapcontext(o, i))),
        rd("get_snapshot_name", |o, i| given(snapshot::get_snapshot_name(o, i))),
        rd("get_snapshot_timestamp", |o, i| given(snapshot::get_snapshot_timestamp(o, i))),
        rd("snapshot_get", |o, i| given(snapshot::get(o, i))),
        rw("snapshot_add", |o, i| given(snapshot::add(o, i))),
        rw("snapshot_remove", |o, i| given(snapshot::remove(o, i))),
        rw("snapshot_rename", |o, i| given(snapshot::rename(o, i))),
        rw("snapshot_trash_add", |o, i| given(snapshot::trash_add(o, i))),
        rd("snapshot_get_limit", |o, i| given(snapshot::get_limit(o, i))),
        rw("snapshot_set_limit", |o, i| given(snapshot::set_limit(o, i))),
        rd("get_protection_status", |o, i| given(snapshot::get_protection_status(o, i))),
        rw("set_protection_status", |o, i| given(snapshot::set_protection_status(o, i))),
        // Snapshots of an image of the first format.
        rd("snap_list", |o, i| given(old::snap_list(o, i))),
        rw("snap_add", |o, i| given(old::snap_add(o, i))),
        rw("snap_remove", |o, i| given(old::snap_remove(o, i))),
        rw("snap_rename", |o, i| given(old::snap_rename(o, i))),
        // Its parent and its children.
        rd("get_parent", |o, i| given(parent::get_parent(o, i))),
        rw("set_parent", |o, i| given(parent::set_parent(o, i))),
        rw("remove_parent", |o, i| given(parent::remove_parent(o, i))),
        rd("parent_get", |o, i| given(parent::get(o, i))),
        rd("parent_overlap_get", |o, i| given(parent::overlap_get(o, i))),
        rw("parent_attach", |o, i| given(parent::attach(o, i))),
        rw("parent_detach", |o, i| given(parent::detach(o, i))),
        rw("child_attach", |o, i| given(children::attach(o, i))),
        rw("child_detach", |o, i| given(children::detach(o, i))),
        rd("children_list", |o, i| given(children::list(o, i))),
        // rbd_children, which stores clones of the first version.
        rw("add_child", |o, i| given(children::add_child(o, i))),
        rw("remove_child", |o, i| given(children::remove_child(o, i))),
        rd("get_children", |o, i| given(children::get_children(o, i))),
        // rbd_id.NAME and rbd_directory.
        rd("get_id", |o, i| given(directory::get_id(o, i))),
        rw("set_id", |o, i| given(directory::set_id(o, i))),
        rd("dir_get_id", |o, i| given(directory::dir_get_id(o, i))),
        rd("dir_get_name", |o, i| given(directory::dir_get_name(o, i))),
        rd("dir_list", |o, i| given(directory::dir_list(o, i))),
        rw("dir_add_image", |o, i| given(directory::dir_add(o, i))),
        rw("dir_remove_image", |o, i| given(directory::dir_remove(o, i))),
        rw("dir_rename_image", |o, i| given(directory::dir_rename(o, i))),
        rd("dir_state_assert", |o, i| given(directory::dir_state_assert(o, i))),
        rw("dir_state_set", |o, i| given(directory::dir_state_set(o, i))),
        // rbd_namespace.
        rw("namespace_add", |o, i| given(directory::namespace_add(o, i))),
        rw("namespace_remove", |o, i| given(directory::namespace_remove(o, i))),
        rd("namespace_list", |o, i| given(directory::namespace_list(o, i))),
        // rbd_object_map.ID.
        rd("object_map_load", |o, i| given(object_map::load(o, i))),
        rw("object_map_save", |o, i| given(object_map::save(o, i))),
        rw("object_map_resize", |o, i| given(object_map::resize(o, i))),
        rw("object_map_update", |o, i| given(object_map::update(o, i))),
        rw("object_map_snap_add", |o, i| given(object_map::snap_add(o, i))),
        rw("object_map_snap_remove", |o, i| given(object_map::snap_remove(o, i))),
        // Groups: rbd_group_directory, and a header for each.
        rd("group_dir_list", |o, i| given(directory::dir_list(o, i))),
        rw("group_dir_add", |o, i| given(directory::dir_add(o, i))),
        rw("group_dir_remove", |o, i| given(directory::dir_remove(o, i))),
        rw("group_dir_rename", |o, i| given(directory::dir_rename(o, i))),
        rw("group_image_set", |o, i| given(group::image_set(o, i))),
        rw("group_image_remove", |o, i| given(group::image_remove(o, i))),
        rd("group_image_list", |o, i| given(group::image_list(o, i))),
        rw("image_group_add", |o, i| given(group::add_to(o, i))),
        rw("image_group_remove", |o, i| given(group::remove_from(o, i))),
        rd("image_group_get", |o, i| given(group::group_of(o, i))),
        rw("group_snap_set", |o, i| given(group::snap_set(o, i))),
        rw("group_snap_remove", |o, i| given(group::snap_remove(o, i))),
        rd("group_snap_get_by_id", |o, i| given(group::snap_get(o, i))),
        rd("group_snap_list", |o, i| given(group::snap_list(o, i))),
        // rbd_trash.
        rw("trash_add", |o, i| given(trash::add(o, i))),
        rw("trash_remove", |o, i| given(trash::remove(o, i))),
        rd("trash_list", |o, i| given(trash::list(o, i))),
        rd("trash_get", |o, i| given(trash::get(o, i))),
        rw("trash_state_set", |o, i| given(trash::state_set(o, i))),
        // Migration and mirroring.
        rw("migration_set", |o, i| given(migration::set(o, i))),
        rw("migration_set_state", |o, i| given(migration::set_state(o, i))),
        rd("migration_get", |o, i| given(migration::get(o, i))),
        rw("migration_remove", |o, i| given(migration::remove(o, i))),
        rd("mirror_uuid_get", |o, i| given(mirror::uuid_get(o, i))),
        rw("mirror_uuid_set", |o, i| given(mirror::uuid_set(o, i))),
        rd("mirror_mode_get", |o, i| given(mirror::mode_get(o, i))),
        rw("mirror_mode_set", |o, i| given(mirror::mode_set(o, i))),
        rd("mirror_peer_list", |o, i| given(peers::list(o, i))),
        rw("mirror_peer_add", |o, i| given(peers::add(o, i))),
        rw("mirror_peer_remove", |o, i| given(peers::remove(o, i))),
        rw("mirror_peer_set_client", |o, i| given(peers::set_client(o, i))),
        rw("mirror_peer_set_cluster", |o, i| given(peers::set_site(o, i))),
        rw("mirror_peer_set_direction", |o, i| given(peers::set_direction(o, i))),
        rw("mirror_peer_ping", |o, i| given(peers::ping(o, i))),
        rd("mirror_image_list", |o, i| given(mirror::image_list(o, i))),
        rd("mirror_image_get", |o, i| given(mirror::image_get(o, i))),
        rd("mirror_image_get_image_id", |o, i| given(mirror::image_get_image_id(o, i))),
        rw("mirror_image_set", |o, i| given(mirror::image_set(o, i))),
        rw("mirror_image_remove", |o, i| given(mirror::image_remove(o, i))),
        rd("mirror_image_status_get_summary", |o, i| given(mirror::status_summary(o, i))),
        rd("mirror_image_status_list", |o, i| given(mirror::status_list(o, i))),
        rd("mirror_image_status_get", |o, i| given(mirror::status_get(o, i))),
        rd("mirror_image_instance_get", |o, i| given(mirror::status_get(o, i))),
        rd("mirror_image_instance_list", |o, i| given(mirror::image_instances(o, i))),
        rd("mirror_instances_list", |o, i| given(mirror::instances_list(o, i))),
        rw("mirror_image_snapshot_unlink_peer", |o, i| given(peers::unlink_snap(o, i))),
        rw("mirror_image_snapshot_set_copy_progress", |o, i| given(peers::set_copy_progress(o, i))),
        // The image's data.
        rw("copyup", |o, i| given(data::copyup(o, i))),
        rw("sparse_copyup", |o, i| given(data::sparse_copyup(o, i))),
        rw("sparsify", |o, i| given(data::sparsify(o, i))),
        rw("assert_snapc_seq", |o, i| given(data::assert_snapc_seq(o, i))),
    ],
};

/// A method's output. No method has a result of its own.
type Answer = Result<Bytes, Errno>;

fn given(answer: Answer) -> Outcome {
    answer.map(|data| (0, data))
}

/// The omap key of a snapshot.
fn snap_key(id: SnapId) -> String {
    format!("{SNAP_PREFIX}{:016x}", id.0)
}

/// The key prefix of snapshots, also of a group's.
const SNAP_PREFIX: &str = "snapshot_";

/// `ENOEXEC` unless the image has all of `features`; an image of the first format has none.
fn require_feature(object: &mut Handle<'_>, features: u64) -> Result<(), Errno> {
    match object.find::<u64>("features")? {
        Some(has) if has & features == features => Ok(()),
        _ => Err(Errno::ENOEXEC),
    }
}

/// Sets and clears operation features, and updates the feature that says whether there are any.
fn set_op_features(object: &mut Handle<'_>, op_features: u64, mask: u64) -> Result<(), Errno> {
    let features: u64 = object.get("features")?;
    let before: u64 = object.find("op_features")?.unwrap_or(0);
    let after = (before & !mask) | (op_features & mask);
    if after == before {
        return Ok(());
    }
    let features_after = if after == 0 {
        object.unset("op_features")?;
        features & !feature::OPERATIONS
    } else {
        object.set("op_features", &after)?;
        features | feature::OPERATIONS
    };
    if features_after != features {
        object.set("features", &features_after)?;
    }
    Ok(())
}

/// Whether this is a valid id of an image or a group.
fn is_id(id: impl AsRef<[u8]>) -> bool {
    let id = id.as_ref();
    !id.is_empty() && id.iter().all(|byte| byte.is_ascii_alphanumeric())
}
