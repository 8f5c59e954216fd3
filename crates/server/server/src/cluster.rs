//! The assembly of the daemons into a cluster.

use std::fs::File;
use std::io::{self, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use loligo_admin::{Admin, AdminSocket, ConfigOption};
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::server::AuthConfig;
use loligo_logring::{log, text};
use loligo_mon::command::Failure;
use loligo_mon::state::pools::Created;
use loligo_mon::state::{NewCluster, NewOsdMap, State};
use loligo_mon::{MonConfig, MonService};
use loligo_msgr::Messenger;
use loligo_osd::{Limits, Osd, OsdConfig};
use loligo_wire::{EntityAddrVec, EntityType, OsdId, UTime, Uuid};
use tokio::sync::{mpsc, oneshot};

use crate::daemon::{Daemon, Introduction, LastAddrs, Listening, Surroundings};
use crate::daemons::{Mgr, Mon, OsdDaemon};
use crate::dir::{DataDir, mon_host, remove_conf, write_conf};
use crate::host::{host_name, random_uuid};
use crate::listen::{Doors, OpenDoor};
use crate::objects::{Disk, Opened, open_store, store_stopped};
use crate::scrub::{self, ScrubFile};
use crate::snapshot::file::SnapshotFile;
use crate::snapshot::{self, SnapshotError, Snapshots};
use crate::usage::OsdUsage;
use crate::{Auth, Builder, StartError, bound, fullness, quota};

/// A running cluster.
pub(crate) struct Cluster {
    facts: Facts,
    mon: Arc<MonService>,
    /// In the order in which they started to listen.
    messengers: Vec<Arc<Messenger>>,
    _daemons: Vec<Arc<dyn Daemon>>,
    /// Reports that the store has stopped writing.
    disk: Option<Disk>,
    /// Reports that a thread of the OSDs has panicked.
    panicked: mpsc::UnboundedReceiver<String>,
    /// The file of the scrub records, and the OSD they belong to.
    scrubs: Option<(Arc<ScrubFile>, Arc<Osd>)>,
    snapshots: Arc<Snapshots>,
    _admin: AdminSocket,
    _dir: DataDir,
}

/// Properties that do not change while a server runs.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) fsid: Uuid,
    /// In the order of the list.
    pub(crate) daemons: Vec<Listening>,
    pub(crate) conf: PathBuf,
    /// What `conf` has or will have.
    pub(crate) conf_text: String,
    pub(crate) keyring: PathBuf,
    pub(crate) admin_socket: PathBuf,
    pub(crate) admin: Admin,
}

impl Facts {
    /// The addresses at which the daemons of a kind listen, in the order of the list.
    pub(crate) fn addrs(&self, kind: EntityType) -> impl Iterator<Item = SocketAddr> {
        self.daemons.iter().filter(move |daemon| daemon.name.kind == kind).map(|daemon| daemon.at)
    }

    /// The address at which the monitor listens, which is the last in the list.
    pub(crate) fn mon_addr(&self) -> SocketAddr {
        self.addrs(EntityType::MON).last().unwrap_or_else(|| unreachable!("every cluster has a monitor"))
    }

    /// The addresses that clients of the monitor connect to.
    fn mon_addrs(&self) -> &EntityAddrVec {
        let mon = self.daemons.iter().rfind(|daemon| daemon.name.kind == EntityType::MON);
        &mon.unwrap_or_else(|| unreachable!("every cluster has a monitor")).addrs
    }
}

impl Cluster {
    pub(crate) async fn start(builder: Builder) -> Result<Self, StartError> {
        loligo_msgr::raise_limit();
        let Begun { dir, mut state, objects, has_run } = open_dir(&builder)?;
        let fsid = state.fsid();
        let Opened { store, kept } = open_store(&builder, &dir, &state)?;
        if let Some(objects) = objects {
            // Before the state is saved: what a killed server has left is a directory without a state.
            objects.load(&*store, &AtomicU64::new(0))?;
        }
        let (disk, memory) = kept.split();
        if let Some(disk) = &disk {
            state.set_store(disk.store.id());
        }
        let osd = Osd::new(OsdConfig { store, limits: Limits::default() });
        let (tell, panicked) = mpsc::unbounded_channel();
        osd.on_panic(move |why| drop(tell.send(why)));
        // A memory store is empty at each start, so scrub records of the last run do not apply.
        let scrub_file = dir.scrub_file().filter(|_| disk.is_some());
        let scrub_file = scrub_file.map(|path| Arc::new(ScrubFile::new(path, fsid)));
        if let Some(file) = &scrub_file {
            file.restore(&osd);
        }
        let places = Places::of(&state, &builder, has_run)?;
        let mon = start_monitor(state, &builder, &dir, &osd).await?;
        watch(&osd, &mon);
        let around = Surroundings { mon, osd };
        let (daemons, open) = start_daemons(&around, &builder, &places, &dir, fsid).await?;
        scrub::watch(Arc::downgrade(&around.osd), Arc::downgrade(&around.mon), scrub_file.clone());
        let facts = facts(fsid, &dir, builder.auth, &open);
        log!(MON, 1, "serving {}: {}", text(&facts.fsid), text(&listed(&facts.daemons)));
        for admin in open.iter().filter_map(|door| door.admin.as_ref()) {
            register_settings(admin, &facts, &builder, disk.is_some());
        }
        let socket = AdminSocket::open(&facts.admin_socket, facts.admin.clone());
        let _admin = socket.map_err(StartError::at(&facts.admin_socket))?;
        let of_osds = open.iter().filter(|door| door.name.kind == EntityType::OSD);
        let of_osds = of_osds.map(|door| Arc::clone(&door.messenger)).collect();
        let messengers = open.into_iter().map(|door| door.messenger).collect();
        let Surroundings { mon, osd } = around;
        let snapshots = Snapshots::new(Arc::clone(&mon), Arc::clone(&osd), of_osds, memory);
        snapshot::register(&facts.admin, &snapshots);
        snapshots.mark().await?;
        let scrubs = scrub_file.map(|file| (file, osd));
        Ok(Self {
            facts,
            mon,
            messengers,
            _daemons: daemons,
            disk,
            panicked,
            scrubs,
            snapshots,
            _admin,
            _dir: dir,
        })
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }

    /// Serves until the server is told to stop or has failed. Then disconnects all clients, saves
    /// everything and returns the reason, as text for people.
    pub(crate) async fn run_until(mut self, stop: oneshot::Receiver<()>) -> String {
        let why = tokio::select! {
            _ = stop => "stopped".to_owned(),
            why = store_stopped(&mut self.disk) => format!("the object store has failed: {why}"),
            // The sender lives as long as the OSDs, so `recv` does not return `None` here.
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
            // Flushes everything; takes a moment.
            let store = Arc::clone(&disk.store);
            let _ = tokio::task::spawn_blocking(move || store.close()).await;
        }
        log!(MON, 1, "{}", why);
        why
    }
}

/// The addresses at which the daemons of the last run listened.
struct Places {
    mon: LastAddrs,
    /// By the OSDs' numbers: as many as this run has.
    osds: Vec<LastAddrs>,
}

impl Places {
    fn of(state: &State, builder: &Builder, has_run: bool) -> Result<Self, StartError> {
        let known = |addrs: Option<&EntityAddrVec>| {
            addrs.filter(|_| has_run).map_or_else(LastAddrs::default, LastAddrs::of)
        };
        let last_of = |osd| known(state.osdmap().osd(osd).map(|osd| &osd.client_addrs));
        Ok(Self {
            mon: known(state.monmap().mon(0).map(|(_, info)| &info.public_addrs)),
            osds: state.osd_count_for(builder.osds)?.ids().map(last_of).collect(),
        })
    }
}

/// Starts to listen for all daemons, the monitor last: a client that reaches the monitor can reach all
/// others.
async fn start_daemons(
    around: &Surroundings,
    builder: &Builder,
    places: &Places,
    dir: &DataDir,
    fsid: Uuid,
) -> Result<(Vec<Arc<dyn Daemon>>, Vec<OpenDoor>), StartError> {
    let (mut list, monitor) = daemons(around, builder, places)?;
    let doors = Doors::new(builder);
    let mut open = doors.open_all(&list).await?;
    introduce(&around.mon, &mut open, places.osds.len(), builder).await?;
    let mut last = doors.open(&*monitor).await?;
    match builder.writes_conf {
        true => write_conf(&dir.conf(), &dir.conf_text(fsid, &last.messenger.addrs(), builder.auth))?,
        false => remove_conf(&dir.conf())?,
    }
    tell_monitor(&around.mon, last.introduction.take().into_iter().collect()).await?;
    list.push(monitor);
    open.push(last);
    Ok((list, open))
}

/// The list of daemons, and the monitor, which is the last to listen.
#[expect(clippy::type_complexity, reason = "a list and its last")]
fn daemons(
    around: &Surroundings,
    builder: &Builder,
    places: &Places,
) -> Result<(Vec<Arc<dyn Daemon>>, Arc<dyn Daemon>), StartError> {
    let mut list: Vec<Arc<dyn Daemon>> = Vec::new();
    let throttle = OsdDaemon::throttle();
    for (id, last) in (0..).map(OsdId).zip(&places.osds) {
        let compression = builder.compression.clone();
        list.push(OsdDaemon::new(around, (id, random_uuid()?), *last, compression, &throttle));
    }
    list.push(Mgr::new(around));
    for daemon in builder.daemons.iter().map(|make| make(around)) {
        let name = daemon.name();
        if name.kind == EntityType::MON || list.iter().any(|other| other.name() == name) {
            return Err(StartError::Daemon(name));
        }
        list.push(daemon);
    }
    Ok((list, Mon::new(around, builder.mon_addr, places.mon)))
}

/// Registers the listening daemons with the monitor and creates the pools of the builder, before the
/// monitor listens.
async fn introduce(
    mon: &MonService,
    open: &mut [OpenDoor],
    osds: usize,
    builder: &Builder,
) -> Result<(), StartError> {
    let mut steps: Vec<Introduction> = Vec::with_capacity(open.len() + 2);
    let host = host_name();
    steps.push(Box::new(move |state, now| state.add_osds(now, osds, &host)));
    steps.extend(open.iter_mut().filter_map(|door| door.introduction.take()));
    let (pools, pg_num) = (builder.pools.clone(), builder.pg_num);
    steps.push(Box::new(move |state, now| make_pools(state, now, &pools, pg_num)));
    tell_monitor(mon, steps).await
}

async fn tell_monitor(mon: &MonService, steps: Vec<Introduction>) -> Result<(), StartError> {
    let told = mon.call(move |state, now| steps.into_iter().try_for_each(|step| step(state, now)));
    Ok(told.await.map_err(io::Error::other)??)
}

fn make_pools(state: &mut State, now: UTime, pools: &[String], pg_num: u32) -> Result<(), Failure> {
    for name in pools {
        if let Created::New(id) = state.create_pool(now, name, pg_num)? {
            state.change_pool(now, id, |pool| {
                pool.application_metadata.insert(application(name).into(), Default::default());
            })?;
        }
    }
    Ok(())
}

/// The application of a pool created at the start: `rbd` for the pool that the `rbd` tool uses by
/// default, and `rados` for others.
fn application(pool: &str) -> &'static str {
    if pool == "rbd" { "rbd" } else { "rados" }
}

fn facts(fsid: Uuid, dir: &DataDir, auth: Auth, open: &[OpenDoor]) -> Facts {
    // The monitor is the last in the list.
    let mon = open.last().map_or_else(EntityAddrVec::default, |mon| mon.messenger.addrs());
    Facts {
        fsid,
        daemons: open.iter().map(OpenDoor::listening).collect(),
        conf: dir.conf(),
        conf_text: dir.conf_text(fsid, &mon, auth),
        keyring: dir.keyring(),
        admin_socket: dir.admin_socket(),
        // One admin socket serves the process, with the commands of the first OSD.
        admin: open.iter().find_map(|door| door.admin.clone()).unwrap_or_default(),
    }
}

fn listed(daemons: &[Listening]) -> String {
    daemons.iter().map(|daemon| format!("{} at {}", daemon.name, daemon.at)).collect::<Vec<_>>().join(", ")
}

/// Starts the periodic checks, which run as long as the OSD and the monitor exist.
fn watch(osd: &Arc<Osd>, mon: &Arc<MonService>) {
    tell_of_purged_snaps(osd, mon);
    fullness::watch(Arc::downgrade(osd), Arc::downgrade(mon));
    quota::watch(Arc::downgrade(osd), Arc::downgrade(mon));
}

/// What a server begins with.
struct Begun {
    dir: DataDir,
    state: State,
    /// Objects of a snapshot, which are still to be loaded.
    objects: Option<SnapshotFile<BufReader<File>>>,
    /// Whether the addresses in the state are this server's own of its last run.
    has_run: bool,
}

/// Opens the data directory, and loads or creates the cluster's state.
fn open_dir(builder: &Builder) -> Result<Begun, StartError> {
    let new_fsid = random_uuid()?;
    let dir = match &builder.data_dir {
        Some(path) => DataDir::open(path)?,
        None => DataDir::temporary(new_fsid)?,
    };
    let (mut state, objects, has_run) = match &builder.snapshot {
        None => (load_or_make(&dir, new_fsid, builder)?, None, true),
        Some(path) => {
            let (objects, state) = snapshot::file::open(path)?;
            let (state, has_run) = state_of_snapshot(&dir, state, builder)?;
            (state, Some(objects), has_run)
        }
    };
    if let Some(cipher) = builder.auth_cipher {
        state.set_auth_cipher(cipher);
    }
    if let Some(key) = &builder.admin_key {
        state.set_admin_key(key.clone());
    }
    make_users(&mut state, builder)?;
    dir.write_keyring(state.keys(), builder.users.iter().map(|(name, _)| name))?;
    Ok(Begun { dir, state, objects, has_run })
}

/// The state of a snapshot as this server's own. A server in memory may have had another state in this
/// directory: it keeps its id, and clients that have seen that state find a newer one. Also returns whether
/// there was one.
fn state_of_snapshot(
    dir: &DataDir,
    mut state: State,
    builder: &Builder,
) -> Result<(State, bool), StartError> {
    if let Some(mut last) = dir.state_file().map(|file| file.load()).transpose()?.flatten() {
        if builder.on_disk || last.store().is_some() {
            return Err(SnapshotError::NotNew(dir.path().to_owned()).into());
        }
        if let Some(key) = last.admin_key().cloned() {
            state.set_admin_key(key);
        }
        last.replace(UTime::now(), &state)?;
        return Ok((last, true));
    }
    refuse_traces(dir)?;
    Ok((state, false))
}

/// Refuses to create a state in a directory that has other files of a server.
fn refuse_traces(dir: &DataDir) -> Result<(), StartError> {
    let traces = dir.traces()?;
    match traces.is_empty() {
        true => Ok(()),
        false => Err(StartError::Lost { path: dir.path().to_owned(), traces: traces.join(", ") }),
    }
}

/// Creates the users of the builder that do not exist.
fn make_users(state: &mut State, builder: &Builder) -> Result<(), StartError> {
    let now = UTime::now();
    for (name, caps) in &builder.users {
        if let Err(Failure { status, .. }) = state.get_or_create_user(now, name, caps.clone()) {
            let is_there = state.keys().entry(name).is_some();
            let hint = if is_there { "; 'ceph auth caps' changes what a user may do" } else { "" };
            return Err(StartError::User { name: name.clone(), why: format!("{status}{hint}") });
        }
    }
    Ok(())
}

/// Loads the state of the last run, or creates a new one and saves it before any other file is written.
/// Refuses to create a state in a directory that has other files of a server.
fn load_or_make(dir: &DataDir, fsid: Uuid, builder: &Builder) -> Result<State, StartError> {
    if let Some(state) = dir.state_file().map(|file| file.load()).transpose()?.flatten() {
        return Ok(state);
    }
    refuse_traces(dir)?;
    let now = UTime::now();
    let admin_key = builder
        .admin_key
        .clone()
        .unwrap_or_else(|| CryptoKey::generate_of(builder.auth_cipher.unwrap_or(KeyType::Aes), now));
    let mut state = State::new(NewCluster { fsid, now, host: host_name(), admin_key })?;
    // The pools of a memory server are meant to be deleted. `ceph config dump` shows this setting, and
    // it can be changed there.
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
        Auth::Cephx => AuthConfig::new(UTime::now),
        Auth::None => AuthConfig::none(UTime::now),
    };
    let maps_to = Arc::clone(osd);
    let config = MonConfig {
        state,
        auth,
        usage: Arc::new(OsdUsage::new(Arc::clone(osd))),
        file: dir.state_file(),
        on_osdmap: Box::new(move |NewOsdMap { map, encoded, filed_by }| {
            maps_to.set_map(map, encoded, &filed_by).map_err(io::Error::other)
        }),
    };
    let path = dir.path().to_owned();
    MonService::start(config).await.map_err(StartError::at(path))
}

/// Makes the monitor remove snapshots from its list of removed snapshots when the OSD has purged them
/// from all objects.
fn tell_of_purged_snaps(osd: &Osd, mon: &Arc<MonService>) {
    let (purged, mut waiting) = mpsc::unbounded_channel();
    let mon = Arc::downgrade(mon);
    tokio::spawn(async move {
        while let Some((pool, snaps)) = waiting.recv().await {
            let Some(mon) = mon.upgrade() else { return };
            // If the monitor has stopped, the OSD finds these snapshots again after the next start.
            let _ = mon.call(move |state, now| state.purged_snaps(now, pool, &snaps)).await;
        }
    });
    osd.on_purged(move |pool, snaps| {
        let _ = purged.send((pool, snaps));
    });
}

/// Adds the settings that `config show` prints, under the names of Ceph's options.
fn register_settings(admin: &Admin, facts: &Facts, builder: &Builder, on_disk: bool) {
    let memory_bytes = builder.capacity_bytes.unwrap_or_else(bound::memory_bytes);
    let method = match builder.auth {
        Auth::Cephx => "cephx",
        Auth::None => "none",
    };
    let settings = [
        ("fsid", facts.fsid.to_string()),
        ("mon_host", mon_host(facts.mon_addrs())),
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
