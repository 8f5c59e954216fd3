//! The cluster: commands, services, the blocklist, the pools' applications.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loligo_wire::GlobalId;
use tokio::runtime::Runtime;

use super::{IoCtx, Rados};
use crate::{CommandReply, Error, OsdId, PgId};

/// Each method is the blocking form of the method of the same name in [`crate::Rados`].
impl Rados {
    /// Returns the global id that the monitors have assigned to this client.
    pub fn instance_id(&self) -> GlobalId {
        self.inner.instance_id()
    }

    /// Sends an OSD a command in JSON.
    pub fn osd_command(&self, osd: OsdId, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.wait(self.inner.osd_command(osd, command, input))
    }

    /// Sends the primary of a placement group a command in JSON.
    pub fn pg_command(&self, pg: PgId, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.wait(self.inner.pg_command(pg, command, input))
    }

    /// Sends the active manager a command in JSON for the cluster.
    pub fn mgr_command(&self, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.wait(self.inner.mgr_command(command, input))
    }

    /// Sends the active manager itself a command in JSON.
    pub fn tell_mgr(
        &self,
        name: Option<&str>,
        command: &str,
        input: Bytes,
    ) -> Result<(Bytes, String), Error> {
        self.wait(self.inner.tell_mgr(name, command, input))
    }

    /// Sends the monitors a command and returns the full reply.
    pub fn ask_monitors(&self, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        self.wait(self.inner.ask_monitors(words, input))
    }

    /// Sends the monitor of the client's session a command for itself and returns the full reply.
    pub fn ask_monitor_itself(&self, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        self.wait(self.inner.ask_monitor_itself(words, input))
    }

    /// Sends the active manager a command for the cluster and returns the full reply.
    pub fn ask_manager(&self, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        self.wait(self.inner.ask_manager(words, input))
    }

    /// Sends a manager itself a command and returns the full reply.
    pub fn ask_manager_itself(
        &self,
        name: Option<&str>,
        words: Vec<Bytes>,
        input: Bytes,
    ) -> Result<CommandReply, Error> {
        self.wait(self.inner.ask_manager_itself(name, words, input))
    }

    /// Sends an OSD a command and returns the full reply.
    pub fn ask_osd(&self, osd: OsdId, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        self.wait(self.inner.ask_osd(osd, words, input))
    }

    /// Sends the primary of a placement group a command and returns the full reply.
    pub fn ask_pg(&self, pg: PgId, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        self.wait(self.inner.ask_pg(pg, words, input))
    }

    /// Registers this client as a daemon of a service.
    pub fn register_service(
        &self,
        service: &str,
        daemon: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        self.inner.register_service(service, daemon, metadata)
    }

    /// Replaces the status of this client's service daemon.
    pub fn update_service_status(&self, status: BTreeMap<String, String>) -> Result<(), Error> {
        self.inner.update_service_status(status)
    }

    /// Adds a client to the blocklist.
    pub fn block(&self, client: &str, lasting: Option<Duration>) -> Result<(), Error> {
        self.wait(self.inner.block(client, lasting))
    }

    /// Removes a client from the blocklist.
    pub fn unblock(&self, client: &str) -> Result<(), Error> {
        self.wait(self.inner.unblock(client))
    }

    /// Waits until the map is as new as the monitors' newest map at the time of the call.
    pub fn wait_for_latest_osdmap(&self) -> Result<(), Error> {
        self.wait(self.inner.wait_for_latest_osdmap())
    }
}

/// Each method is the blocking form of the method of the same name in [`crate::IoCtx`].
impl IoCtx {
    /// Enables an application on the pool.
    pub fn enable_application(&self, application: &str, force: bool) -> Result<(), Error> {
        self.wait(self.inner.enable_application(application, force))
    }

    /// Returns the names of the enabled applications.
    pub fn applications(&self) -> Result<Vec<String>, Error> {
        self.wait(self.inner.applications())
    }

    /// Returns an application's keys and values.
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

/// Blocking form of [`crate::MonitorsSettings`].
#[derive(Debug)]
pub struct MonitorsSettings {
    inner: crate::MonitorsSettings,
    runtime: Arc<Runtime>,
}

impl Rados {
    /// Blocking form of [`crate::Rados::watch_monitors_settings`].
    pub fn watch_monitors_settings(&self) -> MonitorsSettings {
        let runtime = Arc::clone(&self.runtime);
        MonitorsSettings { inner: self.inner.watch_monitors_settings(), runtime }
    }
}

impl MonitorsSettings {
    /// Waits for a change and returns all settings, by option; `None` if the client has ended.
    pub fn changed(&mut self) -> Option<BTreeMap<String, String>> {
        self.runtime.block_on(self.inner.changed())
    }
}
