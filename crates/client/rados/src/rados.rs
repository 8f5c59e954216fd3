//! The connected client: pools, statistics, commands, services.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loligo_cluster::{Cluster, Reason, ToMgr, WaitGuard, Waiter};
use loligo_wire::message::mon::{
    ClusterStatfs, MCommand, MCommandReply, MGetPoolStats, MGetPoolStatsReply, MMonCommand, MMonCommandAck,
    MPoolOp, MPoolOpReply, MStatfs, MStatfsReply, PaxosHeader, PoolOpCode,
};
use loligo_wire::message::osd::PoolStat;
use loligo_wire::message::{Message, Msg};
use loligo_wire::{Epoch, GlobalId, OsdId, PgId, PoolId, SnapId, Uuid};
use tokio::sync::watch;

use crate::Error;
use crate::core::{Core, Lifeline};
use crate::error::Errno;
use crate::objecter::{Addressee, InFlight, Request, Resent};

/// A client of a cluster. Clones share all state. The client ends when the last clone and the last
/// `IoCtx` are dropped.
#[derive(Clone)]
pub struct Rados {
    lifeline: Arc<Lifeline>,
    mon_timeout: Option<Duration>,
}

impl Rados {
    pub(crate) fn new(lifeline: Lifeline, mon_timeout: Option<Duration>) -> Self {
        Self { lifeline: Arc::new(lifeline), mon_timeout }
    }

    /// Ends the client: operations in flight fail with [`Error::Shutdown`], and all connections are
    /// closed. Returns when they are. If the client is a daemon of a service, it first unregisters from
    /// the manager, and waits up to a second for the acknowledgement.
    pub async fn shutdown(&self) {
        let cluster = self.cluster();
        cluster.unregister_service().await;
        cluster.close();
        self.lifeline.close();
        cluster.shutdown().await;
    }

    pub(crate) fn core(&self) -> &Core {
        &self.lifeline.core
    }

    /// Returns the state that clients of other daemons need: sessions with monitors and managers, maps,
    /// tickets, connections. They [register](Cluster::register) with it.
    pub fn cluster(&self) -> &Cluster {
        &self.core().cluster
    }

    /// Returns the cluster's id.
    pub fn fsid(&self) -> Uuid {
        let map_s = self.core().objecter.view().map().fsid;
        self.core().cluster.fsid().unwrap_or(map_s)
    }

    /// Returns this client's settings in the monitors' configuration database
    /// (`ceph config set client …`), by option.
    pub fn monitors_settings(&self) -> BTreeMap<String, String> {
        self.core().cluster.monitors().config()
    }

    /// Returns a receiver for changes of these settings (`MConfig`).
    pub fn watch_monitors_settings(&self) -> MonitorsSettings {
        MonitorsSettings(self.core().cluster.monitors().watch_config())
    }

    /// Returns the global id that the monitors have assigned to this client.
    pub fn instance_id(&self) -> GlobalId {
        self.core().cluster.instance_id()
    }

    /// Returns the epoch of the map that currently places operations.
    pub fn map_epoch(&self) -> Epoch {
        self.core().objecter.view().epoch()
    }

    /// Returns the number of operations in flight and their bytes.
    pub fn in_flight(&self) -> (u64, u64) {
        self.core().objecter.in_flight()
    }

    /// Returns the operations in flight and those waiting for a place in flight, each with the reason it
    /// waits. For diagnosis of operations that do not end. Costs a few microseconds for each operation;
    /// while it reads one OSD's operations, none can be sent to that OSD.
    pub fn requests(&self) -> Vec<Request> {
        self.core().objecter.requests()
    }

    /// Returns a handle to the [operations in flight](Rados::requests). It may outlive the client.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), loligo_rados::Error> {
    /// let rados = loligo_rados::Rados::connect().await?;
    /// let in_flight = rados.observe();
    /// std::thread::spawn(move || {
    ///     for request in in_flight.requests() {
    ///         eprintln!("{request}, for {:?}", request.age);
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe(&self) -> InFlight {
        InFlight::new(Arc::downgrade(&self.core().objecter))
    }

    /// Reports an operation waiting for `reason` until the guard is dropped. For libraries built on this one.
    pub fn waits_for(&self, reason: Reason) -> WaitGuard {
        self.core().cluster.waits().enter(Waiter::Operation, reason)
    }

    /// Returns how many operations the last map change that moved any has placed again, and how long
    /// that took. Zeros before the first such change.
    pub fn resent(&self) -> Resent {
        self.core().objecter.resent()
    }

    /// Returns `true` if the cluster's blocklist is known to contain this client: its map says so, or an
    /// OSD has replied so. The state is permanent. A program that continues [connects](Rados::connect)
    /// again, with another identity.
    pub fn is_blocklisted(&self) -> bool {
        self.core().objecter.is_blocklisted()
    }

    /// Waits until the client [is blocklisted](Rados::is_blocklisted). The future does not keep the
    /// client alive. If the client ends first, the future never completes.
    pub fn blocklisted(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut known = self.core().objecter.blocklisting();
        async move {
            if known.wait_for(|known| *known).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the oldest release that clients must have, from the newest known map (12 is luminous, 13
    /// mimic); 0 if the map does not say.
    pub fn require_min_compat_client(&self) -> u8 {
        self.core().objecter.view().map().require_min_compat_client
    }

    /// Returns the oldest release that OSDs must have, from the newest known map (16 is pacific); 0 if the
    /// map does not say.
    pub fn require_osd_release(&self) -> u8 {
        self.core().objecter.view().map().require_osd_release
    }

    /// Returns the pool behind a cache pool, and any other pool itself; `None` if there is no such pool.
    pub fn base_tier(&self, pool: PoolId) -> Option<PoolId> {
        let view = self.core().objecter.view();
        let base = view.map().pool(pool)?.tier.tier_of;
        Some(if base.0 < 0 { pool } else { base })
    }

    /// Waits until the map is as new as the monitors' newest map at the time of the call.
    pub async fn wait_for_latest_osdmap(&self) -> Result<(), Error> {
        self.patiently(self.core().objecter.wait_for_newest()).await
    }
}

/// Pools.
impl Rados {
    /// Returns the pools in the order of their ids.
    pub fn pools(&self) -> Vec<(PoolId, String)> {
        let view = self.core().objecter.view();
        view.map().pool_names.iter().map(|(id, name)| (*id, name.to_string())).collect()
    }

    /// Returns the id of a pool. If the name is unknown, the client first waits for the monitors' newest map.
    pub async fn pool_id(&self, name: &str) -> Result<PoolId, Error> {
        let known = || self.core().objecter.view().map().pool_by_name(name.as_bytes());
        if let Some(id) = known() {
            return Ok(id);
        }
        self.wait_for_latest_osdmap().await?;
        known().ok_or_else(|| Error::NoPool(name.to_owned()))
    }

    /// Creates a pool with the cluster's defaults, and waits until operations on it can be sent.
    pub async fn create_pool(&self, name: &str) -> Result<PoolId, Error> {
        if name.is_empty() {
            return Err(Errno::EINVAL.into());
        }
        self.pool_op(PoolId(0), PoolOpCode::Create, name, SnapId(0)).await?;
        self.pool_id(name).await
    }

    /// Removes a pool and its contents. The monitors must be configured to allow it
    /// (`mon_allow_pool_delete`).
    pub async fn delete_pool(&self, name: &str) -> Result<(), Error> {
        let id = self.pool_id(name).await?;
        self.pool_op(id, PoolOpCode::Delete, "delete", SnapId(0)).await.map(drop)
    }

    /// Requests a change to a pool from the monitors, and waits for the map that contains it.
    pub(crate) async fn pool_op(
        &self,
        pool: PoolId,
        op: PoolOpCode,
        name: impl AsRef<[u8]>,
        snap: SnapId,
    ) -> Result<Bytes, Error> {
        let body = MPoolOp {
            paxos: PaxosHeader { version: u64::from(self.map_epoch().0) },
            fsid: self.fsid(),
            pool: u32::try_from(pool.0).map_err(|_| Errno::EINVAL)?,
            op,
            snapid: snap,
            name: Bytes::copy_from_slice(name.as_ref()),
            crush_rule: -1,
        };
        let reply: MPoolOpReply = self.ask(&body).await?;
        if let Some(errno) = Errno::from_result(reply.result) {
            return Err(errno.into());
        }
        self.patiently(async {
            self.core().objecter.wait_for_epoch(reply.epoch).await;
            Ok(())
        })
        .await?;
        Ok(reply.payload.unwrap_or_default())
    }
}

/// Statistics and commands.
impl Rados {
    /// Returns the cluster's space usage.
    pub async fn statfs(&self) -> Result<ClusterStatfs, Error> {
        let body = MStatfs { paxos: PaxosHeader::default(), fsid: self.fsid(), data_pool: None };
        let reply: MStatfsReply = self.ask(&body).await?;
        Ok(reply.statfs)
    }

    /// Returns statistics of pools, by name. Pools that do not exist are missing from the result.
    pub async fn pool_stats(&self, pools: &[&str]) -> Result<Vec<(String, PoolStat)>, Error> {
        let pools = pools.iter().map(|name| Bytes::copy_from_slice(name.as_bytes())).collect();
        let body = MGetPoolStats { paxos: PaxosHeader::default(), fsid: self.fsid(), pools };
        let reply: MGetPoolStatsReply = self.ask(&body).await?;
        let named = |(name, stat): (Bytes, _)| (String::from_utf8_lossy(&name).into_owned(), stat);
        Ok(reply.pool_stats.into_iter().map(named).collect())
    }

    /// Sends the monitors a command in JSON, such as `{"prefix": "status", "format": "json"}`. Returns
    /// the output and the status text.
    pub async fn mon_command(&self, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        answered(self.ask_monitors(words(command), input).await?)
    }

    /// Sends an OSD a command in JSON, such as `{"prefix": "version"}`. Returns the output and the
    /// status text. The command is resent if the connection is lost.
    ///
    /// # Errors
    /// ENOENT if the OSD does not exist, ENXIO if it is down; [`Error::Timeout`] after
    /// `rados_osd_op_timeout`.
    pub async fn osd_command(
        &self,
        osd: OsdId,
        command: &str,
        input: Bytes,
    ) -> Result<(Bytes, String), Error> {
        self.tell(Addressee::Osd(osd), command, input).await
    }

    /// Sends the primary of a placement group a command in JSON, which also names the group:
    /// `{"prefix": "query", "pgid": "1.0"}`.
    ///
    /// # Errors
    /// As [`osd_command`](Self::osd_command); ENOENT also if the placement group does not exist.
    pub async fn pg_command(&self, pg: PgId, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.tell(Addressee::Pg(pg), command, input).await
    }

    /// Sends the active manager a command in JSON for the cluster, such as
    /// `{"prefix": "pg dump", "format": "json"}`. Returns the output and the status text. Waits for an
    /// active manager if there is none, and resends the command if the connection is lost.
    ///
    /// # Errors
    /// EACCES if the key allows no access to managers; [`Error::Timeout`] after `rados_mon_op_timeout`.
    /// Without that option the call may wait indefinitely.
    pub async fn mgr_command(&self, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.ask_mgr(ToMgr::Cluster, command, input).await
    }

    /// Sends the active manager itself a command in JSON, one of the `ceph tell mgr` commands:
    /// `{"prefix": "version"}`. With a name, the call waits until that manager is the active one.
    ///
    /// # Errors
    /// As [`mgr_command`](Self::mgr_command).
    pub async fn tell_mgr(
        &self,
        name: Option<&str>,
        command: &str,
        input: Bytes,
    ) -> Result<(Bytes, String), Error> {
        self.ask_mgr(ToMgr::Itself(name.map(str::to_owned)), command, input).await
    }

    async fn ask_mgr(&self, to: ToMgr, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        answered(self.put_to_mgr(to, words(command), input).await?)
    }

    async fn put_to_mgr(&self, to: ToMgr, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        // The fsid distinguishes a command to the manager itself from a release 14 command to the cluster.
        let fsid = if to == ToMgr::Cluster { Uuid::default() } else { self.fsid() };
        let command = MCommand { fsid, cmd: texts(words), input };
        let reply = self.patiently(self.core().cluster.managers().command(to, command)).await?;
        Ok(reply.into())
    }

    async fn tell(&self, to: Addressee, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        answered(self.put_to_osd(to, words(command), input).await?)
    }

    async fn put_to_osd(
        &self,
        to: Addressee,
        words: Vec<Bytes>,
        input: Bytes,
    ) -> Result<CommandReply, Error> {
        let command = MCommand { fsid: self.fsid(), cmd: texts(words), input };
        Ok(self.core().objecter.command(to, &command).await?.into())
    }

    /// Adds a client to the blocklist: its operations fail from then on. `client` is an address as
    /// printed by `ceph osd blocklist ls`. Without a duration the monitors' default applies (an hour,
    /// `mon_osd_blocklist_default_expire`). When this returns, this client has the new map. Each OSD has
    /// it before it replies to an operation that was placed by it.
    ///
    /// # Errors
    /// EINVAL if `client` is not an address.
    pub async fn block(&self, client: &str, lasting: Option<Duration>) -> Result<(), Error> {
        self.change_blocklist("add", client, lasting).await
    }

    /// Removes a client from the blocklist. Succeeds if the client is not on it.
    pub async fn unblock(&self, client: &str) -> Result<(), Error> {
        self.change_blocklist("rm", client, None).await
    }

    async fn change_blocklist(&self, op: &str, client: &str, lasting: Option<Duration>) -> Result<(), Error> {
        // Releases before 16.2 have the command under another name.
        let command = |prefix: &str, op_name: &str| {
            let mut command = serde_json::json!({"prefix": prefix, op_name: op, "addr": client});
            if let Some(lasting) = lasting {
                command["expire"] = lasting.as_secs_f64().into();
            }
            command.to_string()
        };
        let now = command("osd blocklist", "blocklistop");
        match self.mon_command(&now, Bytes::new()).await {
            Err(e) if e.errno() == Errno::EINVAL => {
                let before = command("osd blacklist", "blacklistop");
                self.mon_command(&before, Bytes::new()).await.map_err(|_| e)?;
            }
            done => drop(done?),
        }
        self.wait_for_latest_osdmap().await
    }

    /// Registers this client as a daemon of a service, as the object gateway is one of `rgw`.
    /// `ceph service dump` shows it with this metadata and the status set by
    /// [`update_service_status`](Self::update_service_status). The entry exists from when the active
    /// manager has received the registration until [`shutdown`](Self::shutdown), or until a minute after
    /// the client was dropped (`mgr_service_beacon_grace`). Does not block.
    ///
    /// # Errors
    /// EEXIST if this client is already a daemon; EINVAL if a name is empty or `service` is one of
    /// Ceph's own (`osd`, `mon`, …).
    pub fn register_service(
        &self,
        service: &str,
        daemon: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        self.core().cluster.register_service(service, daemon, metadata)
    }

    /// Replaces the status of this client's service daemon. The next report carries it (managers request
    /// one every five seconds, `mgr_stats_period`), and so does the first report to each new manager.
    ///
    /// # Errors
    /// ENOENT if this client is not a daemon.
    pub fn update_service_status(&self, status: BTreeMap<String, String>) -> Result<(), Error> {
        self.core().cluster.managers().set_status(status)
    }

    async fn ask<A: Message>(&self, body: &impl Message) -> Result<A, Error> {
        let answer = self.patiently(self.core().cluster.monitors().request(|_| Msg::new(body))).await?;
        answer.open().map_err(|source| Error::Decode { what: A::NAME, source })
    }

    /// Waits for a reply from the monitors or the manager, at most `rados_mon_op_timeout`.
    async fn patiently<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match self.mon_timeout {
            None => answer.await,
            Some(limit) => tokio::time::timeout(limit, answer).await.unwrap_or(Err(Error::Timeout(limit))),
        }
    }
}

/// A full reply to a command, which may have failed and still have an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandReply {
    /// 0 or more, or a negative errno.
    pub result: i32,
    /// A text for people.
    pub status: String,
    /// The output.
    pub output: Bytes,
}

impl From<MCommandReply> for CommandReply {
    fn from(reply: MCommandReply) -> Self {
        Self { result: reply.result, status: reply.status, output: reply.output }
    }
}

/// Commands with full replies, for programs that pass on what is theirs to judge. A command is a list of
/// words, usually one of JSON. The errors are those that prevented a reply.
impl Rados {
    /// Sends the monitors a command: see [`mon_command`](Self::mon_command).
    pub async fn ask_monitors(&self, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        let body = MMonCommand { paxos: PaxosHeader::default(), fsid: self.fsid(), cmd: words, input };
        let reply: MMonCommandAck = self.ask(&body).await?;
        let status = String::from_utf8_lossy(&reply.status).into_owned();
        Ok(CommandReply { result: reply.result, status, output: reply.output })
    }

    /// Sends the monitor of the client's session a command for that monitor itself, one of the
    /// `ceph tell mon` commands.
    pub async fn ask_monitor_itself(&self, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        let body = MCommand { fsid: self.fsid(), cmd: texts(words), input };
        let reply: MCommandReply = self.ask(&body).await?;
        Ok(reply.into())
    }

    /// Sends the active manager a command for the cluster: see [`mgr_command`](Self::mgr_command).
    pub async fn ask_manager(&self, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        self.put_to_mgr(ToMgr::Cluster, words, input).await
    }

    /// Sends a manager itself a command: see [`tell_mgr`](Self::tell_mgr).
    pub async fn ask_manager_itself(
        &self,
        name: Option<&str>,
        words: Vec<Bytes>,
        input: Bytes,
    ) -> Result<CommandReply, Error> {
        self.put_to_mgr(ToMgr::Itself(name.map(str::to_owned)), words, input).await
    }

    /// Sends an OSD a command: see [`osd_command`](Self::osd_command).
    pub async fn ask_osd(&self, osd: OsdId, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        self.put_to_osd(Addressee::Osd(osd), words, input).await
    }

    /// Sends the primary of a placement group a command: see [`pg_command`](Self::pg_command).
    pub async fn ask_pg(&self, pg: PgId, words: Vec<Bytes>, input: Bytes) -> Result<CommandReply, Error> {
        self.put_to_osd(Addressee::Pg(pg), words, input).await
    }
}

/// Changes of a client's settings in the monitors' configuration database.
#[derive(Debug)]
pub struct MonitorsSettings(watch::Receiver<Option<BTreeMap<String, String>>>);

impl MonitorsSettings {
    /// Waits for a change and returns all settings, by option; `None` if the client has ended. Cancel safe.
    pub async fn changed(&mut self) -> Option<BTreeMap<String, String>> {
        self.0.changed().await.ok()?;
        self.0.borrow_and_update().clone()
    }
}

/// A command of one word, as it is sent.
fn words(command: &str) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(command.as_bytes())]
}

/// The words of a command to a manager or an OSD, which are texts.
fn texts(words: Vec<Bytes>) -> Vec<String> {
    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Converts a command's reply to a result.
fn answered(reply: CommandReply) -> Result<(Bytes, String), Error> {
    let CommandReply { result, status, output } = reply;
    match Errno::from_result(result) {
        None => Ok((output, status)),
        Some(errno) if status.is_empty() => Err(errno.into()),
        Some(errno) => Err(Error::Command { errno, status }),
    }
}

impl fmt::Debug for Rados {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client.{} of {}", self.instance_id(), self.fsid())
    }
}
