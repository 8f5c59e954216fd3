//! The data directory.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use loligo_cephx::keyring::Keyring;
use loligo_mon::StateFile;
use loligo_wire::{AddrKind, EntityAddr, EntityAddrVec, EntityName, Uuid};
use rustix::process::geteuid;

use crate::files::{no_follow, write_new};
use crate::{Auth, StartError};

/// A server's data directory, locked against use by other servers.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Created for this run, and removed after it.
    temporary: bool,
    state: StateFile,
    /// Holds the lock as long as it is open.
    _lock: File,
}

impl DataDir {
    /// Opens a directory. Creates it if necessary, readable by its owner only.
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        prepare_dir(path)?;
        let path = path.canonicalize().map_err(StartError::at(path))?;
        Self::locked(path, false)
    }

    /// Creates a directory for this run only.
    pub(crate) fn temporary(fsid: Uuid) -> Result<Self, StartError> {
        let path = std::env::temp_dir().join(format!("loligo-{fsid}"));
        make_private(&path, false).map_err(StartError::at(&path))?;
        Self::locked(path, true)
    }

    fn locked(path: PathBuf, temporary: bool) -> Result<Self, StartError> {
        let file = path.join("lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(no_follow());
        let lock = options.open(&file).map_err(StartError::at(&file))?;
        match lock.try_lock() {
            Ok(()) => {
                let state = StateFile::new(path.join("mon.json"));
                Ok(Self { path, temporary, state, _lock: lock })
            }
            Err(TryLockError::WouldBlock) => Err(StartError::InUse(path)),
            Err(TryLockError::Error(e)) => Err(StartError::at(file)(e)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the monitor's state. `None` for a temporary directory, which is removed with its
    /// files.
    pub(crate) fn state_file(&self) -> Option<StateFile> {
        (!self.temporary).then(|| self.state.clone())
    }

    /// The names of the server's files that exist in the directory. A directory with any of them had a
    /// state once.
    pub(crate) fn traces(&self) -> Result<Vec<&'static str>, StartError> {
        let mut there = Vec::new();
        for name in ["keyring", "ceph.conf", "scrubs", "store"] {
            let path = self.path.join(name);
            let found = match fs::symlink_metadata(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                found => found.map_err(StartError::at(&path))?,
            };
            if !found.is_dir() || fs::read_dir(&path).map_err(StartError::at(&path))?.next().is_some() {
                there.push(name);
            }
        }
        Ok(there)
    }

    /// The file of the scrub records. `None` for a temporary directory.
    pub(crate) fn scrub_file(&self) -> Option<PathBuf> {
        (!self.temporary).then(|| self.path.join("scrubs"))
    }

    /// The directory of the store on disk.
    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    pub(crate) fn conf(&self) -> PathBuf {
        self.path.join("ceph.conf")
    }

    pub(crate) fn keyring(&self) -> PathBuf {
        self.path.join("keyring")
    }

    pub(crate) fn admin_socket(&self) -> PathBuf {
        self.path.join("loligo.asok")
    }

    /// The text of the configuration file for clients.
    pub(crate) fn conf_text(&self, fsid: Uuid, mon: &EntityAddrVec, auth: Auth) -> String {
        let method = match auth {
            Auth::Cephx => "cephx",
            Auth::None => "none",
        };
        // Kernel clients speak version 1 unless they are told otherwise. Where it is served, kernels before
        // 5.11 are served too; they do not know the option.
        let map_options = match mon.legacy() {
            None => "rbd default map options = ms_mode=prefer-crc\n",
            Some(_) => "",
        };
        format!(
            "# Written by the server whenever it starts.\n\
             [global]\n\
             fsid = {fsid}\n\
             mon host = {}\n\
             auth cluster required = {method}\n\
             auth service required = {method}\n\
             auth client required = {method}\n\
             keyring = {}\n\
             {map_options}\
             # So that `ceph daemon osd.N help` finds the server; clients would take one in [global] for their own.\n\
             [mon]\n\
             admin socket = {asok}\n\
             [osd]\n\
             admin socket = {asok}\n",
            mon_host(mon),
            self.keyring().display(),
            asok = self.admin_socket().display(),
        )
    }

    /// Writes the keyring for clients: the administrator's key, unless `client.admin` has been removed, and
    /// those of `users`.
    pub(crate) fn write_keyring<'a>(
        &self,
        keys: &Keyring,
        users: impl Iterator<Item = &'a EntityName>,
    ) -> Result<(), StartError> {
        let mut ring = Keyring::new();
        for name in users.cloned().chain([EntityName::client("admin")]) {
            if let Some(entry) = keys.entry(&name) {
                ring.insert(name, entry.clone());
            }
        }
        match ring.iter().len() {
            0 => Ok(()),
            _ => Ok(loligo_conf::write_keyring(&ring, &self.keyring())?),
        }
    }
}

/// Writes the configuration file for clients, as a whole or not at all.
pub(crate) fn write_conf(path: &Path, text: &str) -> Result<(), StartError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let write = || {
        write_new(&temporary, text.as_bytes(), 0o644)?;
        fs::rename(&temporary, path)
    };
    write().map_err(StartError::at(path))
}

/// Removes the configuration file of the last run.
pub(crate) fn remove_conf(path: &Path) -> Result<(), StartError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StartError::at(path)(e)),
        _ => Ok(()),
    }
}

/// The addresses of a monitor as `mon host` names them.
pub(crate) fn mon_host(addrs: &EntityAddrVec) -> String {
    let word = |addr: &EntityAddr| match addr.kind {
        AddrKind::Legacy => "v1",
        _ => "v2",
    };
    let words: Vec<_> =
        addrs.0.iter().filter_map(|addr| Some(format!("{}:{}", word(addr), addr.sock?))).collect();
    format!("[{}]", words.join(","))
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Creates a server's directory if necessary, readable by its owner only. Refuses a directory that
/// another user could change, or that is reached by another user's link: that user could make the server
/// read another state, or write elsewhere.
///
/// # Errors
/// [`StartError::NotOurs`], with the directory concerned, and those of the system.
pub fn prepare_dir(path: &Path) -> Result<(), StartError> {
    make_private(path, true).map_err(StartError::at(path))?;
    let named = fs::symlink_metadata(path).map_err(StartError::at(path))?;
    let refuse = |path: &Path, what: String| Err(StartError::NotOurs { path: path.to_owned(), what });
    if named.is_symlink() && !is_trusted(named.uid()) {
        return refuse(path, format!("it is a link of user {}", named.uid()));
    }
    let path = path.canonicalize().map_err(StartError::at(path))?;
    let dir = fs::metadata(&path).map_err(StartError::at(&path))?;
    if dir.uid() != geteuid().as_raw() {
        return refuse(&path, format!("it belongs to user {}", dir.uid()));
    }
    if dir.mode() & WORLD_WRITABLE != 0 {
        return refuse(&path, "everybody may write to it".to_owned());
    }
    let Some(parent) = path.parent() else { return Ok(()) };
    let above = fs::metadata(parent).map_err(StartError::at(parent))?;
    if !is_trusted(above.uid()) {
        return refuse(&path, format!("the directory above it belongs to user {}", above.uid()));
    }
    match above.mode() & WORLD_WRITABLE != 0 && above.mode() & STICKY == 0 {
        true => {
            refuse(&path, "everybody may exchange it, as they may write to the directory above it".to_owned())
        }
        false => Ok(()),
    }
}

const WORLD_WRITABLE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Root can change everything in any case.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

fn make_private(path: &Path, may_exist: bool) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(may_exist).create(path)
}
