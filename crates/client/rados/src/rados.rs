//! A connected client: pools, statistics, commands, services.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loligo_cluster::{Cluster, Reason, ToMgr, WaitGuard, Waiter};
use loligo_wire::message::mon::{
    ClusterStatfs, MCommand, MGetPoolStats, MGetPoolStatsReply, MMonCommand, MMonCommandAck, MPoolOp,
    MPoolOpReply, MStatfs, MStatfsReply, PaxosHeader, PoolOpCode,
};
use loligo_wire::message::osd::PoolStat;
use loligo_wire::message::{Message, Msg};
use loligo_wire::{Epoch, GlobalId, OsdId, PgId, PoolId, SnapId, Uuid};

use crate::core::{Core, Lifeline};
use crate::error::Errno;
use crate::objecter::{Addressee, InFlight, Request, Resent};
use crate::{Builder, Error, IoCtx};

/// A client of a cluster. Clones share everything; with the last one, and the last [`IoCtx`], the client
/// ends.
#[derive(Clone)]
pub struct Rados {
    lifeline: Arc<Lifeline>,
    mon_timeout: Option<Duration>,
}

impl Rados {
    pub(crate) fn new(lifeline: Lifeline, mon_timeout: Option<Duration>) -> Self {
        Self { lifeline: Arc::new(lifeline), mon_timeout }
    }

    /// Connects as Ceph's programs do, see [`Builder`].
    pub async fn connect() -> Result<Self, Error> {
        Builder::new().connect().await
    }

    /// Ends the client: what is in flight ends with [`Error::Shutdown`], and all connections are closed.
    /// Waits until they are; as a daemon of a service it says good-bye first, and waits up to a second for
    /// the manager to hear it.
    pub async fn shutdown(&self) {
        let cluster = self.cluster();
        cluster.unregister_service().await;
        cluster.close();
        self.lifeline.close();
        cluster.shutdown().await;
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.lifeline.core
    }

    /// What clients of other daemons need of this client: sessions with monitors and managers, maps, tickets,
    /// connections. They [register](Cluster::register) with it.
    pub fn cluster(&self) -> &Cluster {
        &self.core().cluster
    }

    /// The cluster's id.
    pub fn fsid(&self) -> Uuid {
        let map_s = self.core().objecter.view().map().fsid;
        self.core().cluster.fsid().unwrap_or(map_s)
    }

    /// What the monitors' configuration database has for this client (`ceph config set client …`), by option.
    pub fn monitors_settings(&self) -> BTreeMap<String, String> {
        self.core().cluster.monitors().config()
    }

    /// The number that the monitors have given this client.
    pub fn instance_id(&self) -> GlobalId {
        self.core().cluster.instance_id()
    }

    /// The epoch of the map that operations are placed by now.
    pub fn map_epoch(&self) -> Epoch {
        self.core().objecter.view().epoch()
    }

    /// Operations in flight, and their bytes.
    pub fn in_flight(&self) -> (u64, u64) {
        self.core().objecter.in_flight()
    }

    /// The operations in flight and those that wait for a place, and what each waits for: for when one does
    /// not end. Costs some microseconds for each; while it looks at those of one OSD, none goes to that OSD.
    pub fn requests(&self) -> Vec<Request> {
        self.core().objecter.requests()
    }

    /// A look at the [operations in flight](Rados::requests) that may outlive the client.
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

    /// Shows that something waits for `reason`, until the guard is dropped: for waits of libraries over this
    /// one.
    pub fn waits_for(&self, reason: Reason) -> WaitGuard {
        self.core().cluster.waits().enter(Waiter::Operation, reason)
    }

    /// What the last change of the map that moved operations had sent again, and how long that took; zeros
    /// before the first one.
    pub fn resent(&self) -> Resent {
        self.core().objecter.resent()
    }

    /// Whether the cluster keeps this client out (its blocklist), as far as this client knows: its map says
    /// so, or an OSD has answered so. A client that is kept out stays so; a program that goes on
    /// [connects](Rados::connect) anew, with another identity.
    pub fn is_blocklisted(&self) -> bool {
        self.core().objecter.is_blocklisted()
    }

    /// Waits until the client [is kept out](Rados::is_blocklisted). The future does not keep the client
    /// alive; if the client ends first, the future waits for ever.
    pub fn blocklisted(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut known = self.core().objecter.blocklisting();
        async move {
            if known.wait_for(|known| *known).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The oldest release that clients must be of, as the newest known map says (12 is luminous, 13 mimic);
    /// 0: not said.
    pub fn require_min_compat_client(&self) -> u8 {
        self.core().objecter.view().map().require_min_compat_client
    }

    /// Waits until the map is as new as the monitors' is now.
    pub async fn wait_for_latest_osdmap(&self) -> Result<(), Error> {
        self.patiently(self.core().objecter.wait_for_newest()).await
    }
}

/// Pools.
impl Rados {
    /// The pools, in the order of their numbers.
    pub fn pools(&self) -> Vec<(PoolId, String)> {
        let view = self.core().objecter.view();
        view.map().pool_names.iter().map(|(id, name)| (*id, name.to_string())).collect()
    }

    /// The number of a pool. If it is not known, the monitors are asked whether it is new.
    pub async fn pool_id(&self, name: &str) -> Result<PoolId, Error> {
        let known = || self.core().objecter.view().map().pool_by_name(name.as_bytes());
        if let Some(id) = known() {
            return Ok(id);
        }
        self.wait_for_latest_osdmap().await?;
        known().ok_or_else(|| Error::NoPool(name.to_owned()))
    }

    /// Opens a pool for object operations.
    pub async fn ioctx(&self, pool: &str) -> Result<IoCtx, Error> {
        let id = self.pool_id(pool).await?;
        Ok(self.ioctx_by_id(id))
    }

    /// Opens a pool by its number. If there is no such pool, operations on it end with ENOENT.
    pub fn ioctx_by_id(&self, pool: PoolId) -> IoCtx {
        IoCtx::new(self.clone(), pool)
    }

    /// Makes a pool, with the cluster's defaults, and waits until operations on it can be sent.
    pub async fn create_pool(&self, name: &str) -> Result<PoolId, Error> {
        if name.is_empty() {
            return Err(Errno::EINVAL.into());
        }
        self.pool_op(PoolId(0), PoolOpCode::Create, name, SnapId(0)).await?;
        self.pool_id(name).await
    }

    /// Removes a pool and everything in it. The monitors must be set to allow that (`mon_allow_pool_delete`).
    pub async fn delete_pool(&self, name: &str) -> Result<(), Error> {
        let id = self.pool_id(name).await?;
        self.pool_op(id, PoolOpCode::Delete, "delete", SnapId(0)).await.map(drop)
    }

    /// Asks the monitors for a change to a pool, and waits for the map that has it.
    pub(crate) async fn pool_op(
        &self,
        pool: PoolId,
        op: PoolOpCode,
        name: &str,
        snap: SnapId,
    ) -> Result<Bytes, Error> {
        let body = MPoolOp {
            paxos: PaxosHeader { version: u64::from(self.map_epoch().0) },
            fsid: self.fsid(),
            pool: u32::try_from(pool.0).map_err(|_| Errno::EINVAL)?,
            op,
            snapid: snap,
            name: Bytes::copy_from_slice(name.as_bytes()),
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
    /// The cluster's space.
    pub async fn statfs(&self) -> Result<ClusterStatfs, Error> {
        let body = MStatfs { paxos: PaxosHeader::default(), fsid: self.fsid(), data_pool: None };
        let reply: MStatfsReply = self.ask(&body).await?;
        Ok(reply.statfs)
    }

    /// Statistics of pools, by name; those that do not exist are missing.
    pub async fn pool_stats(&self, pools: &[&str]) -> Result<Vec<(String, PoolStat)>, Error> {
        let pools = pools.iter().map(|name| Bytes::copy_from_slice(name.as_bytes())).collect();
        let body = MGetPoolStats { paxos: PaxosHeader::default(), fsid: self.fsid(), pools };
        let reply: MGetPoolStatsReply = self.ask(&body).await?;
        let named = |(name, stat): (Bytes, _)| (String::from_utf8_lossy(&name).into_owned(), stat);
        Ok(reply.pool_stats.into_iter().map(named).collect())
    }

    /// Sends the monitors a command in JSON, such as `{"prefix": "status", "format": "json"}`, and returns
    /// their output and their words.
    pub async fn mon_command(&self, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        let body = MMonCommand {
            paxos: PaxosHeader::default(),
            fsid: self.fsid(),
            cmd: vec![Bytes::copy_from_slice(command.as_bytes())],
            input,
        };
        let reply: MMonCommandAck = self.ask(&body).await?;
        answered(reply.result, String::from_utf8_lossy(&reply.status).into_owned(), reply.output)
    }

    /// Sends an OSD a command in JSON, such as `{"prefix": "version"}`, and returns its output and its words.
    /// It is sent again if the connection is lost.
    ///
    /// # Errors
    /// ENOENT if there is no such OSD, ENXIO if it is down; [`Error::Timeout`] after `rados_osd_op_timeout`.
    pub async fn osd_command(
        &self,
        osd: OsdId,
        command: &str,
        input: Bytes,
    ) -> Result<(Bytes, String), Error> {
        self.tell(Addressee::Osd(osd), command, input).await
    }

    /// Sends the primary of a placement group a command in JSON, which names the group as well:
    /// `{"prefix": "query", "pgid": "1.0"}`.
    ///
    /// # Errors
    /// As [`osd_command`](Self::osd_command); ENOENT also if there is no such placement group.
    pub async fn pg_command(&self, pg: PgId, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.tell(Addressee::Pg(pg), command, input).await
    }

    /// Has the active manager execute a command in JSON, such as `{"prefix": "pg dump", "format": "json"}`,
    /// and returns its output and its words. While there is no active manager it waits for one; it is sent
    /// again if the connection is lost.
    ///
    /// # Errors
    /// EACCES if the key allows nothing at managers; [`Error::Timeout`] after `rados_mon_op_timeout`, without
    /// which it may wait for ever.
    pub async fn mgr_command(&self, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.ask_mgr(ToMgr::Cluster, command, input).await
    }

    /// Sends the active manager itself a command in JSON, of those that `ceph tell mgr` has: `{"prefix":
    /// "version"}`. With a name it waits until the manager of that name is the active one.
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
        // The cluster's id is what tells a command for the manager itself from one of release 14 for the
        // cluster.
        let fsid = if to == ToMgr::Cluster { Uuid::default() } else { self.fsid() };
        let command = MCommand { fsid, cmd: vec![command.to_owned()], input };
        let reply = self.patiently(self.core().cluster.managers().command(to, command)).await?;
        answered(reply.result, reply.status, reply.output)
    }

    async fn tell(&self, to: Addressee, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        let command = MCommand { fsid: self.fsid(), cmd: vec![command.to_owned()], input };
        let reply = self.core().objecter.command(to, &command).await?;
        answered(reply.result, reply.status, reply.output)
    }

    /// Keeps a client out of the cluster: its operations fail from then on. `client` is an address as in
    /// `ceph osd blocklist ls`; without a duration it is kept out for as long as the monitors think right (an
    /// hour, `mon_osd_blocklist_default_expire`). This client knows it when this returns; each OSD, before it
    /// answers an operation that was placed by the new map.
    ///
    /// # Errors
    /// EINVAL if `client` is no address.
    pub async fn block(&self, client: &str, lasting: Option<Duration>) -> Result<(), Error> {
        self.change_blocklist("add", client, lasting).await
    }

    /// Lets a client in again; it is no error if it was not kept out.
    pub async fn unblock(&self, client: &str) -> Result<(), Error> {
        self.change_blocklist("rm", client, None).await
    }

    async fn change_blocklist(&self, op: &str, client: &str, lasting: Option<Duration>) -> Result<(), Error> {
        // Before 16.2 it had another name.
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

    /// Makes this client a daemon of a service, as the object gateway is one of `rgw`: `ceph service dump`
    /// shows it with this metadata, and what [`update_service_status`](Self::update_service_status) says,
    /// from the moment at which the active manager has heard of it, until [`shutdown`](Self::shutdown) or a
    /// minute after the client was dropped (`mgr_service_beacon_grace`). Returns at once.
    ///
    /// # Errors
    /// EEXIST if this client is a daemon already; EINVAL if a name is empty or `service` is one of Ceph's own
    /// (`osd`, `mon`, …).
    pub fn register_service(
        &self,
        service: &str,
        daemon: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        self.core().cluster.register_service(service, daemon, metadata)
    }

    /// Replaces the status of the service's daemon that this client is. It is told with the next report, of
    /// which managers want one every five seconds (`mgr_stats_period`), and to each new manager.
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

    /// Waits for the monitors as long as `rados_mon_op_timeout` says.
    async fn patiently<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match self.mon_timeout {
            None => answer.await,
            Some(limit) => tokio::time::timeout(limit, answer).await.unwrap_or(Err(Error::Timeout(limit))),
        }
    }
}

/// What a command has come to.
fn answered(result: i32, status: String, output: Bytes) -> Result<(Bytes, String), Error> {
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
