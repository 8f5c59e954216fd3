//! Files and directories: their current state and their durable state.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};

use fastrand::Rng;

use crate::image::{Change, Image, writes};

/// The number of a file or directory; 1 is the root directory.
pub type Ino = u64;

pub(crate) const ROOT: Ino = 1;

/// Why an operation failed, as the error of the system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The name or number does not exist.
    #[error("no such file or directory")]
    NotFound,
    /// The name exists already.
    #[error("it exists already")]
    Exists,
    /// The inode is no directory.
    #[error("not a directory")]
    NotADirectory,
    /// The inode is a directory.
    #[error("a directory")]
    IsADirectory,
    /// The directory is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Socket,
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    pub(crate) mode: u16,
    /// The current content, as programs read it.
    pub(crate) now: Image,
    safe: Image,
    /// The changes from `safe` to `now`, oldest first; one with `true` is durable (`O_DSYNC`).
    unsafe_changes: Vec<(Change, bool)>,
    /// A directory's current names, as programs see them.
    pub(crate) names: BTreeMap<OsString, Ino>,
    safe_names: BTreeMap<OsString, Ino>,
}

/// A change of names that is not durable yet: for each directory involved, a name and its new number
/// (`None`: removed).
#[derive(Clone, Debug)]
struct Naming(Vec<(Ino, OsString, Option<Ino>)>);

/// A disk in memory.
#[derive(Clone, Debug)]
pub struct Disk {
    inodes: BTreeMap<Ino, Inode>,
    next: Ino,
    namings: Vec<Naming>,
    /// Syncs have no effect.
    ignores_syncs: bool,
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk {
    /// Creates a disk with an empty root directory.
    pub fn new() -> Self {
        let inodes = BTreeMap::from([(ROOT, Inode::new(Kind::Directory, 0o755))]);
        Self { inodes, next: ROOT + 1, namings: Vec::new(), ignores_syncs: false }
    }

    /// From now on until the power cut, syncs report success without effect.
    pub(crate) fn ignore_syncs(&mut self) {
        self.ignores_syncs = true;
    }

    pub(crate) fn inode(&self, ino: Ino) -> Result<&Inode, DiskError> {
        self.inodes.get(&ino).ok_or(DiskError::NotFound)
    }

    pub(crate) fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, DiskError> {
        self.inodes.get_mut(&ino).ok_or(DiskError::NotFound)
    }

    pub(crate) fn lookup(&self, dir: Ino, name: &OsStr) -> Result<Ino, DiskError> {
        self.directory(dir)?.names.get(name).copied().ok_or(DiskError::NotFound)
    }

    fn directory(&self, dir: Ino) -> Result<&Inode, DiskError> {
        let inode = self.inode(dir)?;
        if inode.kind == Kind::Directory { Ok(inode) } else { Err(DiskError::NotADirectory) }
    }

    pub(crate) fn create(&mut self, dir: Ino, name: &OsStr, kind: Kind, mode: u16) -> Result<Ino, DiskError> {
        if self.directory(dir)?.names.contains_key(name) {
            return Err(DiskError::Exists);
        }
        let ino = self.next;
        self.next += 1;
        self.inodes.insert(ino, Inode::new(kind, mode));
        self.give_names(Naming(vec![(dir, name.into(), Some(ino))]));
        Ok(ino)
    }

    pub(crate) fn remove(&mut self, dir: Ino, name: &OsStr, directory: bool) -> Result<(), DiskError> {
        let inode = self.inode(self.lookup(dir, name)?)?;
        match (inode.kind == Kind::Directory, directory) {
            (true, false) => return Err(DiskError::IsADirectory),
            (false, true) => return Err(DiskError::NotADirectory),
            (true, true) if !inode.names.is_empty() => return Err(DiskError::NotEmpty),
            _ => {}
        }
        self.give_names(Naming(vec![(dir, name.into(), None)]));
        Ok(())
    }

    pub(crate) fn link(&mut self, ino: Ino, dir: Ino, name: &OsStr) -> Result<(), DiskError> {
        self.inode(ino)?;
        if self.directory(dir)?.names.contains_key(name) {
            return Err(DiskError::Exists);
        }
        self.give_names(Naming(vec![(dir, name.into(), Some(ino))]));
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        (from, name): (Ino, &OsStr),
        (to, new_name): (Ino, &OsStr),
        may_replace: bool,
    ) -> Result<(), DiskError> {
        let ino = self.lookup(from, name)?;
        if let Some(&replaced) = self.directory(to)?.names.get(new_name) {
            if !may_replace {
                return Err(DiskError::Exists);
            }
            if replaced == ino {
                return Ok(());
            }
            if !self.inode(replaced)?.names.is_empty() {
                return Err(DiskError::NotEmpty);
            }
        }
        self.give_names(Naming(vec![(from, name.into(), None), (to, new_name.into(), Some(ino))]));
        Ok(())
    }

    fn give_names(&mut self, naming: Naming) {
        for (dir, name, ino) in &naming.0 {
            if let Some(dir) = self.inodes.get_mut(dir) {
                set(&mut dir.names, name, *ino);
            }
        }
        self.namings.push(naming);
    }

    pub(crate) fn write(
        &mut self,
        ino: Ino,
        from: u64,
        data: &[u8],
        is_synced: bool,
    ) -> Result<(), DiskError> {
        let is_synced = is_synced && !self.ignores_syncs;
        let inode = self.inode_mut(ino)?;
        writes(from, data).for_each(|change| inode.change(change, is_synced));
        Ok(())
    }

    pub(crate) fn zero(&mut self, ino: Ino, from: u64, to: u64) -> Result<(), DiskError> {
        self.inode_mut(ino)?.change(Change::Zero { from, to }, false);
        Ok(())
    }

    pub(crate) fn set_len(&mut self, ino: Ino, len: u64) -> Result<(), DiskError> {
        self.inode_mut(ino)?.change(Change::SetLen(len), false);
        Ok(())
    }

    pub(crate) fn sync(&mut self, ino: Ino) -> Result<(), DiskError> {
        let ignored = self.ignores_syncs;
        let inode = self.inode_mut(ino)?;
        if ignored {
            return Ok(());
        }
        inode.unsafe_changes.clear();
        inode.safe = inode.now.clone();
        Ok(())
    }

    /// Syncs a directory: all changes of its names become durable. A rename does so in both of its
    /// directories, and thus also all earlier changes of the other directory.
    pub(crate) fn sync_names(&mut self, dir: Ino) -> Result<(), DiskError> {
        self.directory(dir)?;
        if self.ignores_syncs {
            return Ok(());
        }
        let mut synced = HashSet::from([dir]);
        // In reverse order: every change that is older than a durable one of the same directory becomes
        // durable too.
        let mut stays = vec![false; self.namings.len()];
        for (naming, stays) in self.namings.iter().zip(&mut stays).rev() {
            *stays = naming.0.iter().any(|(dir, ..)| synced.contains(dir));
            if *stays {
                synced.extend(naming.0.iter().map(|(dir, ..)| *dir));
            }
        }
        self.settle(&stays);
        Ok(())
    }

    /// Makes the changes of names marked in `safe` durable, and keeps the others pending.
    fn settle(&mut self, safe: &[bool]) {
        let mut left = Vec::new();
        for (naming, &is_safe) in std::mem::take(&mut self.namings).into_iter().zip(safe) {
            if !is_safe {
                left.push(naming);
                continue;
            }
            for (dir, name, ino) in naming.0 {
                if let Some(dir) = self.inodes.get_mut(&dir) {
                    set(&mut dir.safe_names, &name, ino);
                }
            }
        }
        self.namings = left;
    }

    /// Returns a disk as a power failure at this moment could leave it: all durable changes and some
    /// others.
    pub fn after_power_cut(&self, rng: &mut Rng) -> Self {
        let mut disk = Self { ignores_syncs: false, ..self.clone() };
        // The extremes let nearly all or nearly none of the other changes survive.
        let kept = [0.0, 0.1, 0.5, 0.9, 1.0][rng.usize(..5)];
        disk.cut_names(kept, rng);
        for inode in disk.inodes.values_mut() {
            inode.cut(kept, rng);
        }
        disk.forget_unreachable();
        disk
    }

    /// In each directory the oldest changes survive, up to a random one.
    fn cut_names(&mut self, kept: f64, rng: &mut Rng) {
        let mut stopped = HashSet::new();
        let survive: Vec<bool> = self
            .namings
            .iter()
            .map(|Naming(parts)| {
                let survives = rng.f64() < kept && !parts.iter().any(|(dir, ..)| stopped.contains(dir));
                if !survives {
                    stopped.extend(parts.iter().map(|(dir, ..)| *dir));
                }
                survives
            })
            .collect();
        self.settle(&survive);
        self.namings.clear();
        for inode in self.inodes.values_mut() {
            inode.names.clone_from(&inode.safe_names);
        }
    }

    fn forget_unreachable(&mut self) {
        let mut reached = HashSet::from([ROOT]);
        let mut waiting = vec![ROOT];
        while let Some(ino) = waiting.pop() {
            let names = self.inodes.get(&ino).into_iter().flat_map(|inode| inode.names.values());
            waiting.extend(names.copied().filter(|ino| reached.insert(*ino)));
        }
        self.inodes.retain(|ino, _| reached.contains(ino));
    }
}

impl Inode {
    fn new(kind: Kind, mode: u16) -> Self {
        Self {
            kind,
            mode,
            now: Image::default(),
            safe: Image::default(),
            unsafe_changes: Vec::new(),
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
        }
    }

    fn change(&mut self, change: Change, is_synced: bool) {
        self.now.apply(&change);
        self.unsafe_changes.push((change, is_synced));
    }

    fn cut(&mut self, kept: f64, rng: &mut Rng) {
        for (change, is_synced) in std::mem::take(&mut self.unsafe_changes) {
            if is_synced || rng.f64() < kept {
                self.safe.apply(&change);
            } else if rng.u8(..10) == 0 {
                self.safe.apply_torn(&change, rng);
            }
        }
        self.now = self.safe.clone();
    }
}

fn set(names: &mut BTreeMap<OsString, Ino>, name: &OsStr, ino: Option<Ino>) {
    match ino {
        Some(ino) => names.insert(name.into(), ino),
        None => names.remove(name),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(disk: &Disk) -> Vec<Disk> {
        (0..200).map(|seed| disk.after_power_cut(&mut Rng::with_seed(seed))).collect()
    }

    fn content(disk: &Disk, name: &str) -> Option<Vec<u8>> {
        let ino = disk.lookup(ROOT, name.as_ref()).ok()?;
        Some(disk.inode(ino).expect("a number that a name has").now.read(0, usize::MAX >> 1))
    }

    #[test]
    fn what_is_synced_survives_and_the_rest_may_be_lost() {
        let mut disk = Disk::new();
        let ino = disk.create(ROOT, "a".as_ref(), Kind::File, 0o600).expect("created");
        disk.write(ino, 0, &[1; 8192], false).expect("written");
        disk.sync(ino).expect("synced");
        assert!(
            cuts(&disk).iter().any(|cut| content(cut, "a").is_none()),
            "a file's sync does not keep its name"
        );
        disk.sync_names(ROOT).expect("synced");
        assert!(cuts(&disk).iter().all(|cut| content(cut, "a") == Some(vec![1; 8192])));

        disk.write(ino, 0, &[2; 8192], false).expect("written");
        disk.write(ino, 8192, &[3; 10], true).expect("written");
        let found: HashSet<_> = cuts(&disk).iter().map(|cut| content(cut, "a").expect("there")).collect();
        assert!(found.iter().all(|bytes| bytes.len() == 8202 && bytes[8192..] == [3; 10]));
        assert!(found.iter().flatten().all(|byte| (1..=3).contains(byte)));
        // The pages of one write survive independently of each other, and can be torn.
        assert!(found.iter().any(|bytes| bytes[0] == 1 && bytes[4096] == 2));
        assert!(found.iter().any(|bytes| bytes[..4096].contains(&1) && bytes[..4096].contains(&2)));
    }

    #[test]
    fn what_is_not_synced_in_truth_may_be_lost() {
        let mut disk = Disk::new();
        let ino = disk.create(ROOT, "a".as_ref(), Kind::File, 0o600).expect("created");
        disk.sync_names(ROOT).expect("synced");
        disk.ignore_syncs();
        disk.write(ino, 0, &[1; 10], true).expect("written");
        disk.sync(ino).expect("as it says");
        disk.create(ROOT, "b".as_ref(), Kind::File, 0o600).expect("created");
        disk.sync_names(ROOT).expect("as it says");
        let cuts = cuts(&disk);
        assert!(cuts.iter().any(|cut| content(cut, "a") == Some(Vec::new())));
        assert!(cuts.iter().any(|cut| content(cut, "b").is_none()));
        // The disk after the power cut honours syncs again.
        let mut cut = cuts.into_iter().next().expect("many");
        cut.write(ino, 0, &[2; 10], false).expect("written");
        cut.sync(ino).expect("synced");
        assert!(self::cuts(&cut).iter().all(|cut| content(cut, "a") == Some(vec![2; 10])));
    }

    #[test]
    fn names_of_a_directory_change_in_order_and_renames_wholly() {
        let mut disk = Disk::new();
        let other = disk.create(ROOT, "d".as_ref(), Kind::Directory, 0o700).expect("created");
        disk.create(ROOT, "a".as_ref(), Kind::File, 0o600).expect("created");
        disk.sync_names(ROOT).expect("synced");
        disk.create(ROOT, "b".as_ref(), Kind::File, 0o600).expect("created");
        disk.rename((ROOT, "a".as_ref()), (other, "c".as_ref()), true).expect("renamed");
        let mut seen = HashSet::new();
        for cut in cuts(&disk) {
            let has = |dir, name: &str| cut.lookup(dir, name.as_ref()).is_ok();
            assert_ne!(has(ROOT, "a"), has(other, "c"), "it has one of its names");
            assert!(
                !has(other, "c") || has(ROOT, "b"),
                "what came later is there only with what came before"
            );
            seen.insert((has(ROOT, "a"), has(ROOT, "b")));
        }
        assert_eq!(seen.len(), 3);
        // A sync of the other directory makes the rename durable, and so the earlier changes of the root
        // directory.
        disk.sync_names(other).expect("synced");
        assert!(cuts(&disk).iter().all(|cut| cut.lookup(ROOT, "b".as_ref()).is_ok()));
    }
}
