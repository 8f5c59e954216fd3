//! Functions of features that this project does not have: they answer as stock librbd answers without the
//! feature. `docs/compatibility.md` lists them.

use std::ffi::{c_int, c_void};

use loligo_wire::Errno;

use crate::border::{calls, plain};
use crate::memory::put;

/// Functions that fail with EOPNOTSUPP, whatever they are given.
macro_rules! absent {
    ($($name:ident),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name() -> i64 {
            Errno::EOPNOTSUPP.to_result().into()
        }
    )*};
}

/// Functions that free what the others would have given, and so have nothing to do.
macro_rules! nothing {
    ($($name:ident),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name() -> i64 {
            0
        }
    )*};
}

absent! {
    rbd_aio_mirror_image_create_snapshot, rbd_aio_mirror_image_demote, rbd_aio_mirror_image_get_global_status,
    rbd_aio_mirror_image_get_info, rbd_aio_mirror_image_get_mode, rbd_aio_mirror_image_get_status,
    rbd_aio_mirror_image_promote, rbd_encryption_format, rbd_encryption_load, rbd_encryption_load2,
    rbd_group_get_id, rbd_group_snap_get_info, rbd_group_snap_list2,
    rbd_migration_prepare_import, rbd_mirror_image_create_snapshot, rbd_mirror_image_create_snapshot2,
    rbd_mirror_image_demote, rbd_mirror_image_disable, rbd_mirror_image_enable, rbd_mirror_image_enable2,
    rbd_mirror_image_get_global_status, rbd_mirror_image_get_instance_id, rbd_mirror_image_get_mode,
    rbd_mirror_image_get_status, rbd_mirror_image_global_status_list, rbd_mirror_image_info_list,
    rbd_mirror_image_instance_id_list, rbd_mirror_image_promote, rbd_mirror_image_resync,
    rbd_mirror_image_status_list, rbd_mirror_image_status_summary, rbd_mirror_mode_set, rbd_mirror_peer_add,
    rbd_mirror_peer_bootstrap_create, rbd_mirror_peer_bootstrap_import, rbd_mirror_peer_get_attributes,
    rbd_mirror_peer_list, rbd_mirror_peer_remove, rbd_mirror_peer_set_attributes, rbd_mirror_peer_set_client,
    rbd_mirror_peer_set_cluster, rbd_mirror_peer_site_add, rbd_mirror_peer_site_get_attributes,
    rbd_mirror_peer_site_list, rbd_mirror_peer_site_remove, rbd_mirror_peer_site_set_attributes,
    rbd_mirror_peer_site_set_client_name, rbd_mirror_peer_site_set_direction, rbd_mirror_peer_site_set_name,
    rbd_mirror_remote_namespace_get, rbd_mirror_remote_namespace_set, rbd_mirror_site_name_get,
    rbd_mirror_site_name_set, rbd_mirror_uuid_get, rbd_quiesce_unwatch, rbd_quiesce_watch,
    rbd_snap_get_mirror_namespace, rbd_snap_get_trash_namespace2,
}

nothing! {
    rbd_group_snap_get_info_cleanup, rbd_group_snap_list2_cleanup, rbd_mirror_image_global_status_cleanup,
    rbd_mirror_image_global_status_list_cleanup, rbd_mirror_image_info_list_cleanup,
    rbd_mirror_image_instance_id_list_cleanup, rbd_mirror_image_status_list_cleanup,
    rbd_mirror_peer_list_cleanup, rbd_mirror_peer_site_list_cleanup, rbd_quiesce_complete,
    rbd_snap_mirror_namespace_cleanup, rbd_snap_trash_namespace_cleanup,
}

/// `rbd_mirror_image_info_t`.
#[repr(C)]
pub(crate) struct MirrorInfo {
    global_id: *mut std::ffi::c_char,
    state: c_int,
    primary: bool,
}

calls! {
    /// Pools are not mirrored.
    fn rbd_mirror_mode_get(_ioctx: *mut c_void, mode: *mut c_int) -> c_int {
        const DISABLED: c_int = 0;
        put(mode, DISABLED);
        Ok(0)
    }

    /// Images are not mirrored.
    fn rbd_mirror_image_get_info(_image: *mut c_void, info: *mut MirrorInfo, room: usize) -> c_int {
        const DISABLED: c_int = 2;
        if room < size_of::<MirrorInfo>() {
            return Err(Errno::ERANGE.into());
        }
        let global_id = crate::memory::allocated_text(b"");
        put(info, MirrorInfo { global_id, state: DISABLED, primary: false });
        Ok(0)
    }
}

plain! {
    /// Frees what `rbd_mirror_image_get_info` gave.
    fn rbd_mirror_image_get_info_cleanup(info: *mut MirrorInfo) -> () {
        if let Some(info) = info.as_mut() {
            crate::memory::free(std::mem::replace(&mut info.global_id, std::ptr::null_mut()));
        }
    }
}
