//! Creating a cluster handle, connecting it, ending it.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use loligo_rados::EntityName;
use loligo_wire::Errno;

use super::Client;
use super::client::{Context, MAGIC};
use crate::border::{calls, plain};
use crate::handle::hand_out;
use crate::memory::{optional_text, put, text};

calls! {
    /// Creates a handle for the user `client.ID`; `client.admin` for NULL. Reads no file.
    fn rados_create(cluster: *mut *mut c_void, id: *const c_char) -> c_int {
        let id = optional_text(id)?.unwrap_or("admin");
        hand_out(cluster, Client::new(None, EntityName::client(id))?)
    }

    /// Creates a handle for a cluster's name and a full user name. `flags` are reserved.
    fn rados_create2(
        cluster: *mut *mut c_void, cluster_name: *const c_char, name: *const c_char, _flags: u64,
    ) -> c_int {
        let name: EntityName = text(name)?.parse().map_err(|_| Errno::EINVAL)?;
        let cluster_name = optional_text(cluster_name)?.filter(|name| !name.is_empty());
        hand_out(cluster, Client::new(cluster_name.map(str::to_owned), name)?)
    }

    /// Creates a handle from the context of another one (`rados_cct`), with its settings.
    fn rados_create_with_context(cluster: *mut *mut c_void, context: *mut c_void) -> c_int {
        let context = context.cast::<Context>().as_ref().ok_or(Errno::EINVAL)?;
        if context.magic != MAGIC {
            // A context of Ceph's own library, whose layout is not known here.
            return Err(Errno::EOPNOTSUPP.into());
        }
        // SAFETY: the handle has its context, which the program uses only as long as the handle.
        let other = unsafe { Client::of(context.client.cast_mut().cast()) }?;
        let conf = other.conf();
        let client = Client::new(Some(conf.cluster().to_owned()), conf.name().clone())?;
        other.copy_settings_to(&client);
        hand_out(cluster, client)
    }

    /// Connects.
    fn rados_connect(cluster: *mut c_void) -> c_int {
        Client::of(cluster)?.connect()?;
        Ok(0)
    }

    /// Waits for the newest map.
    fn rados_wait_for_latest_osdmap(cluster: *mut c_void) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        crate::runtime::wait(rados.wait_for_latest_osdmap())?;
        Ok(0)
    }
}

plain! {
    /// The version of the interface.
    fn rados_version(major: *mut c_int, minor: *mut c_int, extra: *mut c_int) -> () {
        put(major, 3);
        put(minor, 0);
        put(extra, 0);
    }

    /// Ends the client and frees the handle. Handles of pools that remain fail from now on.
    fn rados_shutdown(cluster: *mut c_void) -> () {
        if !cluster.is_null() {
            let client = Arc::from_raw(cluster.cast::<Client>().cast_const());
            client.shut_down();
        }
    }

    /// An opaque context, for `rados_create_with_context`. It is longer than what programs of Ceph's test
    /// package look at, and zero there.
    fn rados_cct(cluster: *mut c_void) -> *mut c_void {
        match Client::of(cluster) {
            Ok(client) => Context::of(client).cast(),
            Err(_) => std::ptr::null_mut(),
        }
    }
}
