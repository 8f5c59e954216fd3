//! The cluster: commands, the blocklist, what pools are for.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::{IoCtx, Rados};
use crate::{Error, OsdId, PgId};

/// Each method as the one of the same name in [`crate::Rados`].
impl Rados {
    /// Sends an OSD a command in JSON.
    pub fn osd_command(&self, osd: OsdId, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.wait(self.inner.osd_command(osd, command, input))
    }

    /// Sends the primary of a placement group a command in JSON.
    pub fn pg_command(&self, pg: PgId, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.wait(self.inner.pg_command(pg, command, input))
    }

    /// Keeps a client out of the cluster.
    pub fn block(&self, client: &str, lasting: Option<Duration>) -> Result<(), Error> {
        self.wait(self.inner.block(client, lasting))
    }

    /// Lets a client in again.
    pub fn unblock(&self, client: &str) -> Result<(), Error> {
        self.wait(self.inner.unblock(client))
    }

    /// Waits until the map is as new as the monitors' is now.
    pub fn wait_for_latest_osdmap(&self) -> Result<(), Error> {
        self.wait(self.inner.wait_for_latest_osdmap())
    }
}

/// Each method as the one of the same name in [`crate::IoCtx`].
impl IoCtx {
    /// Says that the pool is for an application.
    pub fn enable_application(&self, application: &str, force: bool) -> Result<(), Error> {
        self.wait(self.inner.enable_application(application, force))
    }

    /// The applications that the pool is for.
    pub fn applications(&self) -> Result<Vec<String>, Error> {
        self.wait(self.inner.applications())
    }

    /// An application's keys and values.
    pub fn application_metadata(&self, application: &str) -> Result<BTreeMap<String, String>, Error> {
        self.wait(self.inner.application_metadata(application))
    }

    /// Sets one of an application's keys.
    pub fn set_application_metadata(&self, application: &str, key: &str, value: &str) -> Result<(), Error> {
        self.wait(self.inner.set_application_metadata(application, key, value))
    }

    /// Removes one of an application's keys.
    pub fn remove_application_metadata(&self, application: &str, key: &str) -> Result<(), Error> {
        self.wait(self.inner.remove_application_metadata(application, key))
    }
}
