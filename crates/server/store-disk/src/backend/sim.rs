//! A simulated machine: files in memory that lose, reorder and tear unsynced writes, and calls that fail.
//!
//! A failed sync loses the unsynced writes, and each open handle reports the error once, as with the kernel.
//!
//! Time is counted in calls. At the call that the test names, the power fails, or that call alone fails.
//! After a power failure each sector of each unsynced write is present or not, depending on the seed;
//! synced writes are present. A commit of the key-value map during which the power fails is present
//! completely or not at all.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex, blocking_point};

use super::{Backend, BackendFile, Batch, Kv, Snapshot};

static MACHINE: Class = Class::new("test.machine");

/// The unit that a disk writes completely or not at all.
const SECTOR: usize = 512;

/// The faults to inject, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    /// The call (write, sync, commit) at which the power fails.
    pub(crate) power_off_at: Option<u64>,
    /// The call (also a read) that fails alone.
    pub(crate) fail_at: Option<u64>,
    /// The error of the failing call.
    pub(crate) error: Option<io::ErrorKind>,
    /// The call that panics.
    pub(crate) panic_at: Option<u64>,
}

/// A machine. Clones share its state.
#[derive(Clone)]
pub(crate) struct Machine(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    seed: u64,
    files: BTreeMap<&'static str, FileState>,
    kv: Arc<BTreeMap<Bytes, Bytes>>,
    plan: Plan,
    calls: u64,
    off: bool,
    random: u64,
    free_bytes: u64,
    held: Option<Held>,
    /// Bytes read from each file.
    read: BTreeMap<&'static str, u64>,
    gates: Vec<(&'static str, At, mpsc::Sender<()>, mpsc::Receiver<()>)>,
}

/// The kind of call that a gate delays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Write,
    Sync,
    /// A sync that loses the unsynced writes, and waits before it reports that.
    LostSync,
}

/// A delayed read: sends when it has begun, and waits until the other end is dropped.
type Held = (&'static str, mpsc::Sender<()>, mpsc::Receiver<()>);

#[derive(Default)]
struct FileState {
    /// The contents as programs see them.
    now: Vec<u8>,
    /// The contents at the last sync.
    synced: Vec<u8>,
    /// The changes since the last sync.
    unsynced: Vec<Change>,
    /// The number of failed syncs.
    failures: u64,
}

enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Discard(u64, u64),
}

impl Machine {
    pub(crate) fn new(seed: u64, free_bytes: u64) -> Self {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self(Arc::new(Mutex::new(&MACHINE, State { seed, random, free_bytes, ..State::default() })))
    }

    /// The seed it was created with.
    pub(crate) fn seed(&self) -> u64 {
        self.0.lock().seed
    }

    /// Sets the faults to inject from now on; calls are counted from 0 again.
    pub(crate) fn plan(&self, plan: Plan) {
        let mut state = self.0.lock();
        state.plan = plan;
        state.calls = 0;
    }

    pub(crate) fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Cuts the power, if it is on, and restores it: the state that a program starting now finds.
    pub(crate) fn power_cycle(&self) {
        let mut state = self.0.lock();
        state.power_off();
        state.off = false;
        state.plan = Plan::default();
        state.calls = 0;
    }

    /// Ends the program but not the machine (`kill -9`): written data stays. Programs that continue get
    /// errors.
    pub(crate) fn restarted(&self) -> Self {
        let mut state = self.0.lock();
        let files = std::mem::take(&mut state.files);
        let new = State {
            files,
            kv: state.kv.clone(),
            random: state.random,
            free_bytes: state.free_bytes,
            ..State::default()
        };
        state.off = true;
        Self(Arc::new(Mutex::new(&MACHINE, new)))
    }

    /// Flips one bit of a file.
    pub(crate) fn flip(&self, name: &'static str, offset: u64, bit: u8) {
        let mut state = self.0.lock();
        let file = state.files.get_mut(name).expect("a file of that name");
        file.now[offset as usize] ^= 1 << bit;
        file.synced = file.now.clone();
        file.unsynced.clear();
    }

    /// Replaces the contents of a file.
    pub(crate) fn put(&self, name: &'static str, contents: Vec<u8>) {
        let file = FileState { now: contents.clone(), synced: contents, ..FileState::default() };
        self.0.lock().files.insert(name, file);
    }

    /// Returns the map.
    pub(crate) fn map(&self) -> Arc<BTreeMap<Bytes, Bytes>> {
        self.0.lock().kv.clone()
    }

    /// Replaces the map.
    pub(crate) fn put_map(&self, map: Arc<BTreeMap<Bytes, Bytes>>) {
        self.0.lock().kv = map;
    }

    /// Delays the next read of a file until the sender is dropped; the receiver is notified when it has
    /// begun.
    pub(crate) fn hold_read(&self, name: &'static str) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((begun, has_begun), (release, released)) = (mpsc::channel(), mpsc::channel());
        self.0.lock().held = Some((name, begun, released));
        (has_begun, release)
    }

    /// Returns the contents of a file.
    pub(crate) fn contents(&self, name: &'static str) -> Vec<u8> {
        self.0.lock().files.get(name).map(|file| file.now.clone()).unwrap_or_default()
    }

    /// Bytes read from a file since this machine was started.
    pub(crate) fn bytes_read(&self, name: &'static str) -> u64 {
        self.0.lock().read.get(name).copied().unwrap_or(0)
    }

    /// Delays the next such call of a file. Returns a receiver that is notified when the call waits, and a
    /// sender that lets it continue. If the sender is dropped, the call panics.
    pub(crate) fn gate(&self, name: &'static str, at: At) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((arrived, heard), (go, told)) = (mpsc::channel(), mpsc::channel());
        self.0.lock().gates.push((name, at, arrived, told));
        (heard, go)
    }

    /// Waits if a gate exists for this call; `first` changes the file before the wait.
    fn pass_gate(&self, name: &'static str, at: At, first: impl FnOnce(&mut FileState)) -> bool {
        let mut state = self.0.lock();
        let Some(index) = state.gates.iter().position(|(of, when, ..)| (*of, *when) == (name, at)) else {
            return false;
        };
        let (_, _, arrived, told) = state.gates.remove(index);
        first(state.files.entry(name).or_default());
        drop(state);
        let _ = arrived.send(());
        if told.recv().is_err() {
            quiet_panic();
        }
        true
    }

    fn call<R>(&self, writes: bool, act: impl FnOnce(&mut State) -> R) -> io::Result<R> {
        blocking_point("a call of the simulated machine");
        let mut state = self.0.lock();
        if state.off {
            return Err(io::Error::other("the power is off"));
        }
        let call = state.calls;
        state.calls += 1;
        if state.plan.panic_at == Some(call) {
            drop(state);
            quiet_panic();
        }
        if state.plan.fail_at == Some(call) {
            return Err(state.plan.error.unwrap_or(io::ErrorKind::Other).into());
        }
        if writes && state.plan.power_off_at.is_some_and(|at| call >= at) {
            // The call in progress may take effect in part.
            act(&mut state);
            state.power_off();
            return Err(io::Error::other("the power went off"));
        }
        Ok(act(&mut state))
    }
}

/// Panics without a message.
fn quiet_panic() -> ! {
    std::panic::resume_unwind(Box::new("a call of the simulated machine"));
}

impl State {
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn power_off(&mut self) {
        if std::mem::replace(&mut self.off, true) {
            return;
        }
        let mut files = std::mem::take(&mut self.files);
        for file in files.values_mut() {
            for change in std::mem::take(&mut file.unsynced) {
                self.perhaps(&mut file.synced, &change);
            }
            file.now = file.synced.clone();
        }
        self.files = files;
    }

    /// Applies a change in part: all, nothing, or any of its sectors.
    fn perhaps(&mut self, contents: &mut Vec<u8>, change: &Change) {
        let fate = self.next_random() % 4;
        match change {
            _ if fate == 0 => {}
            Change::Write(offset, data) if fate >= 2 => {
                for (i, sector) in data.chunks(SECTOR).enumerate() {
                    if self.next_random().is_multiple_of(2) {
                        put(contents, *offset as usize + i * SECTOR, sector);
                    }
                }
            }
            change => change.apply(contents),
        }
    }
}

impl Change {
    fn apply(&self, contents: &mut Vec<u8>) {
        match self {
            Self::Write(offset, data) => put(contents, *offset as usize, data),
            Self::SetLen(len) => contents.resize(*len as usize, 0),
            Self::Discard(offset, len) => {
                let end = contents.len().min((offset + len) as usize);
                // Not zeros, so that reads of discarded data are noticed.
                contents[(*offset as usize).min(end)..end].fill(0xdd);
            }
        }
    }
}

fn put(contents: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if contents.len() < offset + data.len() {
        contents.resize(offset + data.len(), 0);
    }
    contents[offset..offset + data.len()].copy_from_slice(data);
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}

impl Backend for Machine {
    fn open(&self, name: &'static str) -> io::Result<Arc<dyn BackendFile>> {
        let told = self.call(false, |state| state.files.entry(name).or_default().failures)?;
        Ok(Arc::new(SimFile { machine: self.clone(), name, told: AtomicU64::new(told) }))
    }

    fn kv(&self) -> io::Result<Arc<dyn Kv>> {
        Ok(Arc::new(SimKv(self.clone())))
    }

    fn traces(&self) -> io::Result<Vec<String>> {
        self.call(false, |state| {
            let files = state.files.iter().filter(|(_, file)| !file.now.is_empty());
            let map = (!state.kv.is_empty()).then(|| "kv".to_owned());
            files.map(|(name, _)| (*name).to_owned()).chain(map).collect()
        })
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.0.lock().free_bytes)
    }
}

#[derive(Debug)]
struct SimFile {
    machine: Machine,
    name: &'static str,
    /// The number of failed syncs that this handle has reported.
    told: AtomicU64,
}

impl SimFile {
    fn with<R>(&self, writes: bool, act: impl FnOnce(&mut FileState) -> R) -> io::Result<R> {
        self.machine.call(writes, |state| act(state.files.entry(self.name).or_default()))
    }

    fn lose(&self, file: &mut FileState) {
        file.failures += 1;
        file.unsynced.clear();
        self.told.store(file.failures, Ordering::Relaxed);
    }

    fn change(&self, change: Change) -> io::Result<()> {
        self.with(true, |file| {
            change.apply(&mut file.now);
            file.unsynced.push(change);
        })
    }
}

impl BackendFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.with(false, |file| file.now.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::SetLen(len))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let held = self.machine.0.lock().held.take_if(|(name, ..)| *name == self.name);
        if let Some((_, begun, released)) = held {
            begun.send(()).expect("the test waits");
            let _ = released.recv();
        }
        self.machine.call(false, |state| {
            *state.read.entry(self.name).or_default() += buffer.len() as u64;
            let file = state.files.entry(self.name).or_default();
            let end = offset as usize + buffer.len();
            let found = file.now.get(offset as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(found);
            Ok(())
        })?
    }

    fn write(&self, offset: u64, buffer: &[u8]) -> io::Result<()> {
        self.machine.pass_gate(self.name, At::Write, |_| ());
        self.change(Change::Write(offset, buffer.to_vec()))
    }

    fn sync(&self) -> io::Result<()> {
        self.machine.pass_gate(self.name, At::Sync, |_| ());
        if self.machine.pass_gate(self.name, At::LostSync, |file| self.lose(file)) {
            return Err(io::Error::other("lost"));
        }
        let synced = self.machine.call(true, |state| {
            let off = state.plan.power_off_at.is_some_and(|at| state.calls > at);
            let file = state.files.entry(self.name).or_default();
            if file.failures > self.told.swap(file.failures, Ordering::Relaxed) {
                return Err(io::Error::other("an earlier sync has failed"));
            }
            if !off {
                for change in std::mem::take(&mut file.unsynced) {
                    change.apply(&mut file.synced);
                }
            }
            Ok(())
        });
        if synced.is_err() {
            self.lose(self.machine.0.lock().files.entry(self.name).or_default());
        }
        synced?
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(Change::Discard(offset, len))
    }
}

#[derive(Debug)]
struct SimKv(Machine);

impl Kv for SimKv {
    fn commit(&self, batch: Batch) -> io::Result<()> {
        self.0.call(true, |state| {
            let off = state.plan.power_off_at.is_some_and(|at| state.calls > at);
            if off && state.next_random().is_multiple_of(2) {
                return;
            }
            let map = Arc::make_mut(&mut state.kv);
            for (key, value) in batch.changes {
                match value {
                    Some(value) => drop(map.insert(key, value)),
                    None => drop(map.remove(&key)),
                }
            }
        })
    }

    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::new(SimSnapshot { machine: self.0.clone(), map: self.0.0.lock().kv.clone() })
    }
}

struct SimSnapshot {
    machine: Machine,
    map: Arc<BTreeMap<Bytes, Bytes>>,
}

impl Snapshot for SimSnapshot {
    fn get(&self, key: &[u8]) -> io::Result<Option<Bytes>> {
        blocking_point("reading the simulated map");
        self.machine.call(false, |_| self.map.get(key).cloned())
    }

    fn range(&self, from: &[u8], until: &[u8], max: usize) -> io::Result<Vec<(Bytes, Bytes)>> {
        blocking_point("reading the simulated map");
        self.machine.call(false, |_| ())?;
        if from >= until {
            return Ok(Vec::new());
        }
        let pairs =
            self.map.range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(until)));
        Ok(pairs.take(max).map(|(k, v)| (k.clone(), v.clone())).collect())
    }
}
