//! The monitor and the OSDs, put together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::{fs, io};

use loligo_admin::{Admin, AdminSocket, ConfigOption};
use loligo_cephx::handshake::ServerAuth;
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::server::{AuthConfig, AuthServer};
use loligo_logring::{log, text};
use loligo_maps::OsdMap;
use loligo_mon::command::Failure;
use loligo_mon::state::pools::Created;
use loligo_mon::state::{NewCluster, NewOsdMap, OsdCount, State};
use loligo_mon::{MonConfig, MonService, PgUsage, Scrub, Space, Usage, UsageSource};
use loligo_msgr::{
    AcceptAuth, Admission, Compression, Config, Dispatcher, Log, Messenger, Policies, Policy, Throttle,
};
use loligo_osd::{Door, Limits, Osd, OsdConfig, PgStats, PoolStats};
use loligo_store::memory::MemoryStore;
use loligo_store::{Delayed, ObjectStore};
use loligo_store_disk::{DiskConfig, DiskStore};
use loligo_wire::message::osd::ObjectStatSum;
use loligo_wire::{EntityAddr, EntityAddrVec, EntityType, OsdId, PgId, PoolId, UTime, Uuid};
use tokio::sync::{mpsc, oneshot};

use crate::builder::Announce;
use crate::dir::DataDir;
use crate::handle::Facts;
use crate::scrub::{self, ScrubFile};
use crate::tell::{self, MgrDoor, MonDoor, OsdDoor};
use crate::{Auth, Builder, StartError, fullness, quota};

/// Requests that may wait for placement groups, over all clients, and their bytes
/// (`osd_client_message_size_cap`).
const OSD_WAITING_MAX: (usize, u64) = (65_536, 512 << 20);
/// What a store in memory takes, unless it is told.
const MEMORY_BYTES: u64 = 8 << 30;

/// A running monitor and OSD.
pub(crate) struct Cluster {
    facts: Facts,
    mon: Arc<MonService>,
    messengers: Vec<Arc<Messenger>>,
    /// Tells when the store can write no more.
    disk: Option<Disk>,
    /// Tells that a thread of the OSDs has panicked.
    panicked: mpsc::UnboundedReceiver<String>,
    /// Where what is known of scrubs is kept, and whose it is.
    scrubs: Option<(Arc<ScrubFile>, Arc<Osd>)>,
    _admin: AdminSocket,
    _dir: DataDir,
}

impl Cluster {
    pub(crate) async fn start(builder: Builder) -> Result<Self, StartError> {
        loligo_msgr::raise_limit();
        let new_fsid = Uuid(random_uuid()?);
        let dir = match &builder.data_dir {
            Some(path) => DataDir::open(path)?,
            None => DataDir::temporary(new_fsid)?,
        };
        let mut state = load_or_make(&dir, new_fsid, builder.auth_cipher)?;
        if let Some(cipher) = builder.auth_cipher {
            state.set_auth_cipher(cipher);
        }
        let fsid = state.fsid();
        dir.write_keyring(state.keys())?;

        let (store, disk) = open_store(&builder, &dir, &state)?;
        if let Some(disk) = &disk {
            state.set_store(disk.store.id());
        }
        let store = match builder.commit_delay {
            Some(delay) => Arc::new(Delayed::new(store, delay)?),
            None => store,
        };
        let osd = Osd::new(OsdConfig { store, limits: Limits::default() });
        let (tell, panicked) = mpsc::unbounded_channel();
        osd.on_panic(move |why| drop(tell.send(why)));
        let doors = Doors::new(&builder, &state, state.osd_count_for(builder.osds)?);
        let figures_of = Arc::clone(&osd);
        // What is in memory is new at each start, and so is what is known of it.
        let scrub_file = dir.scrub_file(fsid).filter(|_| disk.is_some()).map(Arc::new);
        if let Some(file) = &scrub_file {
            file.restore(&osd);
        }
        let mon = start_monitor(state, &builder, &dir, &osd).await?;
        tell_of_purged_snaps(&osd, &mon);
        fullness::watch(Arc::downgrade(&osd), Arc::downgrade(&mon));
        quota::watch(Arc::downgrade(&osd), Arc::downgrade(&mon));
        let scrubs = scrub_file.map(|file| (file, Arc::clone(&osd)));
        let admins: Vec<Admin> = doors.osd_ids().map(|id| tell::osd_admin(&osd, &mon, id)).collect();
        let (mut messengers, osd_addrs) = doors.open_osds(&osd, &admins, &mon).await?;
        let mon_admin = tell::mon_admin(&mon, &osd);
        drop(osd);
        let boot = Boot { osds: Boot::osds_at(&messengers)?, host: host_name() };
        let (pools, pg_num) = (builder.pools.clone(), builder.pg_num);
        let booted = mon.call(move |state, now| boot.run(state, now, &pools, pg_num)).await;
        booted.map_err(io::Error::other)??;

        let mgr_admin = tell::mgr_admin(&mon);
        let mgr_messenger = doors.open_mgr(MgrDoor::new(Arc::clone(&mon), mgr_admin.clone()), &mon).await?;
        let mgr_addrs = mgr_messenger.addrs();
        let announced = mon.call(move |state, now| state.set_manager(now, mgr_addrs)).await;
        announced.map_err(io::Error::other)?;
        messengers.push(mgr_messenger);
        let mon_door = MonDoor::new(Arc::clone(&mon), mon_admin.clone());
        let (mon_messenger, mon_addr) = doors.open_mon(mon_door, &mon).await?;
        let addrs = mon_messenger.addrs();
        dir.write_conf(fsid, &addrs, builder.auth)?;
        let started = mon.call(move |state, now| state.start(now, addrs)).await;
        started.map_err(io::Error::other)?;
        let file = scrubs.as_ref().map(|(file, _)| Arc::clone(file));
        scrub::watch(Arc::downgrade(&figures_of), Arc::downgrade(&mon), file);
        messengers.push(mon_messenger);
        log!(
            MON,
            1,
            "serving {}: monitor at {}, OSDs at {}",
            text(&fsid),
            mon_addr,
            text(&listed(&osd_addrs))
        );
        let facts = Facts {
            fsid,
            mon_addr,
            osd_addrs,
            conf: dir.conf(),
            keyring: dir.keyring(),
            admin_socket: dir.admin_socket(),
            admin: admins.first().cloned().unwrap_or_default(),
        };
        for admin in admins.iter().chain([&mon_admin, &mgr_admin]) {
            register_settings(admin, &facts, &builder, disk.is_some());
        }
        let socket = AdminSocket::open(&facts.admin_socket, facts.admin.clone());
        let _admin = socket.map_err(StartError::at(&facts.admin_socket))?;
        Ok(Self { facts, mon, messengers, disk, panicked, scrubs, _admin, _dir: dir })
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Serves until it is told to stop, or cannot go on. Then clients are gone and everything is saved. The
    /// reason is for people.
    pub(crate) async fn run_until(mut self, stop: oneshot::Receiver<()>) -> String {
        let why = tokio::select! {
            _ = stop => "stopped".to_owned(),
            why = store_stopped(&mut self.disk) => format!("the object store has failed: {why}"),
            // The other end goes with the OSDs, not before.
            Some(why) = self.panicked.recv() => format!("the OSDs have failed: {why}"),
            error = self.mon.ended() => match error {
                Some(e) => format!("the monitor has failed: {e}"),
                None => "the monitor has stopped".to_owned(),
            },
        };
        for messenger in &self.messengers {
            messenger.shutdown().await;
        }
        self.mon.stop().await;
        if let Some((file, osd)) = self.scrubs.take() {
            let _ = tokio::task::spawn_blocking(move || file.save(&osd)).await;
        }
        if let Some(disk) = &self.disk {
            // Writes down everything; takes a moment.
            let store = Arc::clone(&disk.store);
            let _ = tokio::task::spawn_blocking(move || store.close()).await;
        }
        log!(MON, 1, "{}", why);
        why
    }
}

/// A store on disk, as the cluster looks after it.
struct Disk {
    store: Arc<DiskStore>,
    stopped: oneshot::Receiver<()>,
}

fn open_store(
    builder: &Builder,
    dir: &DataDir,
    state: &State,
) -> Result<(Arc<dyn ObjectStore>, Option<Disk>), StartError> {
    if !builder.on_disk {
        return Ok((Arc::new(MemoryStore::new(builder.capacity_bytes.unwrap_or(MEMORY_BYTES))), None));
    }
    let path = dir.store();
    let cache_bytes =
        builder.cache_bytes.map_or(DiskConfig::CACHE_BYTES, |bytes| bytes.try_into().unwrap_or(usize::MAX));
    let (capacity, store) = (builder.capacity_bytes, state.store());
    let config = DiskConfig { capacity, cache_bytes, store, ..DiskConfig::new(state.fsid()) };
    let opened = DiskStore::open(&path, config);
    let store = Arc::new(opened.map_err(|source| StartError::Store { path, source })?);
    let (tell, stopped) = oneshot::channel();
    store.on_stop(move |_| {
        // Who waits for it may have ended.
        let _ = tell.send(());
    });
    Ok((Arc::clone(&store) as _, Some(Disk { store, stopped })))
}

/// Ends when the store has stopped, and says why; never, if it is in memory.
async fn store_stopped(disk: &mut Option<Disk>) -> String {
    match disk {
        Some(Disk { store, stopped }) => {
            let _ = stopped.await;
            store.why_stopped().unwrap_or_default()
        }
        None => std::future::pending().await,
    }
}

/// The state that the last run left, or that of a new cluster, which is saved before anything else is
/// written: it is never made anew where there is something already.
fn load_or_make(dir: &DataDir, fsid: Uuid, cipher: Option<KeyType>) -> Result<State, StartError> {
    if let Some(state) = dir.state_file().map(|file| file.load()).transpose()?.flatten() {
        return Ok(state);
    }
    let traces = dir.traces()?;
    if !traces.is_empty() {
        return Err(StartError::Lost { path: dir.path().to_owned(), traces: traces.join(", ") });
    }
    let now = UTime::now();
    let admin_key = CryptoKey::generate_of(cipher.unwrap_or(KeyType::Aes), now);
    let mut state = State::new(NewCluster { fsid, now, host: host_name(), admin_key })?;
    // A memory server's pools are made to be thrown away. Shown by `ceph config dump`, and changed there.
    state.set_config(now, "mon", "mon_allow_pool_delete", "true");
    if let Some(file) = dir.state_file() {
        file.save(&state.to_json()).map_err(StartError::at(file.path()))?;
    }
    Ok(state)
}

async fn start_monitor(
    state: State,
    builder: &Builder,
    dir: &DataDir,
    osd: &Arc<Osd>,
) -> Result<Arc<MonService>, StartError> {
    let auth = match builder.auth {
        Auth::Cephx => AuthConfig::default(),
        Auth::None => AuthConfig::none(),
    };
    let maps_to = Arc::clone(osd);
    let config = MonConfig {
        state,
        auth,
        usage: Arc::new(OsdUsage(Arc::clone(osd))),
        file: dir.state_file(),
        on_osdmap: Box::new(move |NewOsdMap { map, encoded, filed_by }| {
            maps_to.set_map(map, encoded, &filed_by).map_err(io::Error::other)
        }),
    };
    let path = dir.path().to_owned();
    MonService::start(config).await.map_err(StartError::at(path))
}

/// Has the monitor take snapshots off its list when the OSD has taken them away from all objects.
fn tell_of_purged_snaps(osd: &Osd, mon: &Arc<MonService>) {
    let (purged, mut waiting) = mpsc::unbounded_channel();
    let mon = Arc::downgrade(mon);
    tokio::spawn(async move {
        while let Some((pool, snaps)) = waiting.recv().await {
            let Some(mon) = mon.upgrade() else { return };
            // A monitor that has stopped finds them again when it is back.
            let _ = mon.call(move |state, now| state.purged_snaps(now, pool, &snaps)).await;
        }
    });
    osd.on_purged(move |pool, snaps| {
        let _ = purged.send((pool, snaps));
    });
}

/// Where the two listen, and what they say of it.
struct Doors {
    /// As the builder says it.
    mon: SocketAddr,
    /// Where the last run listened: clients that run on look for us there.
    mon_last: Option<SocketAddr>,
    /// By the OSDs' numbers: as many as there are to be.
    osds_last: Vec<Option<SocketAddr>>,
    log: Log,
    announce: Option<Announce>,
    compression: Option<Compression>,
    admission: Arc<Admission>,
}

impl Doors {
    fn new(builder: &Builder, state: &State, osds: OsdCount) -> Self {
        let sock = |addrs: &EntityAddrVec| addrs.msgr2().and_then(|addr| addr.sock);
        let last_of = |osd| state.osdmap().osd(osd).and_then(|osd| sock(&osd.client_addrs));
        Self {
            mon: builder.mon_addr,
            mon_last: state.monmap().mon(0).and_then(|(_, info)| sock(&info.public_addrs)),
            osds_last: osds.ids().map(last_of).collect(),
            log: Arc::clone(&builder.log),
            announce: builder.announce.clone(),
            compression: builder.compression.clone(),
            admission: builder.admission.map_or_else(Admission::of_process, Admission::new),
        }
    }

    fn osd_ids(&self) -> impl Iterator<Item = OsdId> + use<> {
        (0..).map(OsdId).take(self.osds_last.len())
    }

    /// Opens a door for each OSD; all lead to the same one, and their clients share the room for requests.
    async fn open_osds(
        &self,
        osd: &Arc<Osd>,
        admins: &[Admin],
        mon: &MonService,
    ) -> Result<(Vec<Arc<Messenger>>, Vec<SocketAddr>), StartError> {
        let throttle = Throttle::new(OSD_WAITING_MAX.0, OSD_WAITING_MAX.1);
        let (mut messengers, mut addrs) = (Vec::new(), Vec::new());
        for ((id, last), admin) in self.osd_ids().zip(&self.osds_last).zip(admins) {
            let door = OsdDoor::new(Door::new(Arc::clone(osd), id), admin.clone());
            let (messenger, addr) = self.open_osd(id, door, *last, mon, Arc::clone(&throttle)).await?;
            messengers.push(messenger);
            addrs.push(addr);
        }
        Ok((messengers, addrs))
    }

    async fn open_osd(
        &self,
        id: OsdId,
        door: Arc<OsdDoor>,
        last: Option<SocketAddr>,
        mon: &MonService,
        throttle: Arc<Throttle>,
    ) -> Result<(Arc<Messenger>, SocketAddr), StartError> {
        let mut config = Config::new(EntityType::OSD);
        config.num = id.0.into();
        config.nonce = nonce()?;
        config.compression = self.compression.clone();
        config.policies = Policies::new(Policy::stateless_server().with_throttle(throttle));
        let any = SocketAddr::new(self.mon.ip(), 0);
        self.open(config, door, Arc::new(ServiceAuth(Arc::clone(mon.auth()), EntityType::OSD)), any, last)
            .await
    }

    async fn open_mon(
        &self,
        door: Arc<MonDoor>,
        mon: &Arc<MonService>,
    ) -> Result<(Arc<Messenger>, SocketAddr), StartError> {
        let mut config = Config::new(EntityType::MON);
        config.num = 0;
        config.nonce = 0; // monitors are known by their address alone
        config.policies = mon.policies();
        self.open(config, door, Arc::clone(mon) as _, self.mon, self.mon_last).await
    }

    /// Opens the manager's door, at any port: clients hear of it from the monitor.
    async fn open_mgr(&self, door: Arc<MgrDoor>, mon: &MonService) -> Result<Arc<Messenger>, StartError> {
        let mut config = Config::new(EntityType::MGR);
        config.nonce = nonce()?;
        config.policies = mon.policies();
        let any = SocketAddr::new(self.mon.ip(), 0);
        let auth = Arc::new(ServiceAuth(Arc::clone(mon.auth()), EntityType::MGR));
        self.open(config, door, auth, any, None).await.map(|(messenger, _)| messenger)
    }

    /// Listens at `addr`; if it leaves the port open, then at that of `last`, unless somebody else has it
    /// now.
    async fn open(
        &self,
        mut config: Config,
        dispatcher: Arc<dyn Dispatcher>,
        auth: Arc<dyn AcceptAuth>,
        addr: SocketAddr,
        last: Option<SocketAddr>,
    ) -> Result<(Arc<Messenger>, SocketAddr), StartError> {
        config.log = Arc::clone(&self.log);
        config.admission = Arc::clone(&self.admission);
        let (kind, nonce) = (config.kind, config.nonce);
        let messenger = Messenger::new(config, dispatcher);
        let known = last.filter(|last| addr.port() == 0 && last.ip() == addr.ip());
        let bound = match messenger.bind(known.unwrap_or(addr), Arc::clone(&auth)).await {
            Err(_) if known.is_some() => messenger.bind(addr, auth).await,
            bound => bound,
        };
        let bound = bound.map_err(|source| StartError::Listen { addr, source })?;
        if let Some(announce) = &self.announce {
            let told = EntityAddr::msgr2(announce(kind, bound)).with_nonce(nonce);
            messenger.set_addrs(told.into());
        }
        Ok((messenger, bound))
    }
}

/// What `config show` says, by the names of Ceph's options.
fn register_settings(admin: &Admin, facts: &Facts, builder: &Builder, on_disk: bool) {
    let memory_bytes = builder.capacity_bytes.unwrap_or(MEMORY_BYTES);
    let method = match builder.auth {
        Auth::Cephx => "cephx",
        Auth::None => "none",
    };
    let settings = [
        ("fsid", facts.fsid.to_string()),
        ("mon_host", format!("[v2:{}]", facts.mon_addr)),
        ("auth_cluster_required", method.to_owned()),
        ("auth_service_required", method.to_owned()),
        ("auth_client_required", method.to_owned()),
        ("keyring", facts.keyring.display().to_string()),
        ("admin_socket", facts.admin_socket.display().to_string()),
        ("osd_objectstore", if on_disk { "disk" } else { "memstore" }.to_owned()),
        ("memstore_device_bytes", memory_bytes.to_string()),
    ];
    for (name, value) in settings {
        admin.option(ConfigOption::new(name, move || value.clone()));
    }
}

/// What the osdmap must say before clients come.
struct Boot {
    /// Where each OSD is, by their numbers, and an id for it if it is new.
    osds: Vec<(EntityAddrVec, Uuid)>,
    /// The machine's name.
    host: String,
}

impl Boot {
    fn osds_at(messengers: &[Arc<Messenger>]) -> io::Result<Vec<(EntityAddrVec, Uuid)>> {
        messengers.iter().map(|messenger| Ok((messenger.addrs(), Uuid(random_uuid()?)))).collect()
    }

    fn run(self, state: &mut State, now: UTime, pools: &[String], pg_num: u32) -> Result<(), Failure> {
        state.add_osds(now, self.osds.len(), &self.host)?;
        for (osd, (addrs, new)) in (0..).map(OsdId).zip(self.osds) {
            // A memory store is a new one each time, but the OSDs stay the same.
            let known = state.osdmap().osd(osd).map(|osd| osd.uuid).filter(|uuid| *uuid != Uuid::default());
            state.boot_osd(now, osd, known.unwrap_or(new), addrs)?;
        }
        for name in pools {
            if let Created::New(id) = state.create_pool(now, name, pg_num)? {
                state.change_pool(now, id, |pool| {
                    pool.application_metadata.insert(application(name).into(), Default::default());
                })?;
            }
        }
        Ok(())
    }
}

fn listed(addrs: &[SocketAddr]) -> String {
    addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What a pool made at the start is said to be for: the one that `rbd` takes by default for images, others
/// for objects.
fn application(pool: &str) -> &'static str {
    if pool == "rbd" { "rbd" } else { "rados" }
}

/// Clients come to OSDs and to the manager with tickets that the monitor made for the service.
struct ServiceAuth(Arc<AuthServer>, EntityType);

impl AcceptAuth for ServiceAuth {
    fn acceptor(&self, _: SocketAddr) -> Box<dyn ServerAuth> {
        self.0.service_acceptor(self.1)
    }
}

/// What the OSD stores, in the monitor's terms.
pub(crate) struct OsdUsage(Arc<Osd>);

impl OsdUsage {
    pub(crate) fn new(osd: Arc<Osd>) -> Self {
        Self(osd)
    }
}

impl UsageSource for OsdUsage {
    fn usage(&self) -> Usage {
        usage(&self.0)
    }

    fn placement_groups(&self) -> Vec<PgUsage> {
        let (scrubs, map) = (self.0.pg_scrubs(), self.0.map());
        let of = |stats: PgStats| {
            let scrub = scrubs.get(&stats.pg).copied().unwrap_or_default();
            let (shallow, deep) = (scrub.shallow_errors as i64, scrub.deep_errors as i64);
            let sum = ObjectStatSum {
                num_scrub_errors: shallow + deep,
                num_shallow_scrub_errors: shallow,
                num_deep_scrub_errors: deep,
                ..sum(&stats.stats, copies(&map, stats.pg.pool))
            };
            let (version, log_entries) = (stats.version, stats.remembered);
            PgUsage { pg: stats.pg, sum, version, log_entries, scrubs: scrub::scrubs(&scrub) }
        };
        self.0.pg_stats().into_iter().map(of).collect()
    }

    fn scrub(&self, pgs: &[PgId], how: Scrub) {
        self.0.ask_scrub(pgs.iter().copied(), scrub::kind(how));
    }
}

pub(crate) fn usage(osd: &Osd) -> Usage {
    let map = osd.map();
    let pools = osd.pool_stats().into_iter();
    let pools = pools.map(|(id, stats)| (id, sum(&stats, copies(&map, id)))).collect();
    Usage { space: space(osd), pools }
}

pub(crate) fn space(osd: &Osd) -> Space {
    let statfs = osd.statfs();
    Space { total: statfs.total, used: statfs.total.saturating_sub(statfs.available) }
}

/// The copies, or shards, that a pool is said to keep of each object.
fn copies(map: &OsdMap, pool: PoolId) -> u64 {
    map.pool(pool).map_or(1, |pool| pool.size.into())
}

fn sum(stats: &PoolStats, copies: u64) -> ObjectStatSum {
    ObjectStatSum {
        num_bytes: stats.stored.bytes as i64,
        num_objects: stats.stored.objects as i64,
        num_object_copies: (stats.stored.objects * copies) as i64,
        num_rd: stats.reads as i64,
        num_rd_kb: stats.read_bytes.div_ceil(1024) as i64,
        num_wr: stats.writes as i64,
        num_wr_kb: stats.written_bytes.div_ceil(1024) as i64,
        num_omap_bytes: stats.stored.omap_bytes as i64,
        num_omap_keys: stats.stored.omap_keys as i64,
        ..ObjectStatSum::default()
    }
}

/// A random UUID (version 4).
fn random_uuid() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes)
}

/// Tells this life of the OSD from others at the same address. Not 0, which stands for any.
fn nonce() -> io::Result<u32> {
    getrandom::u32().map(|n| n.max(1)).map_err(io::Error::other)
}

/// The machine's name up to the first dot, as CRUSH has hosts.
fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let short = name.trim().split('.').next().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !short.is_empty() && short != "default" && short.chars().all(fits) {
        true => short.to_owned(),
        false => "localhost".to_owned(),
    }
}
