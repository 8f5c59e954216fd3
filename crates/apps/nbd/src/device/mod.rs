//! A device: a back end that clients use and that an administrator can change.
//!
//! | phase | meaning | transitions |
//! |---|---|---|
//! | adding | the back end is being opened | opened: to *ready*; open failed: to *removing* |
//! | ready | clients attach and detach | `suspend`: to *suspended*; `remove`: to *removing* |
//! | suspended | requests wait, clients stay attached | `resume`: to *ready*; `remove`: to *removing* |
//! | removing | new clients are refused, attached clients are told to disconnect | final |
//!
//! The phase and the number of clients share one atomic word, so that no client can attach between a
//! check of the number and the change of the phase. Attaching and detaching take no lock. Operations
//! that take long (open, suspend, resize, close) are jobs in the device's lane and run one after
//! another. The caller that pushes the first job runs the lane until a job has to wait; then a task
//! continues it.

mod gate;
mod registry;

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use loligo_lane::{Action, Lane};
use loligo_lockstat::Class;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

use crate::access::Allowed;
use crate::backend::{Backend, Opener, Spec, Started};
use crate::proto::{Export, Fault, Io};
use gate::Gate;

pub use registry::{Definition, Info, Registry};

/// Locked by runs of devices' lanes.
static LANE: Class = Class::new("nbd.device_lane");

/// Maximum number of waiting jobs per device.
const JOBS_MAX: usize = 4096;

/// The phase of a device. It occupies two bits of the word; the other bits count clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Phase {
    /// The back end is being opened.
    Adding = 0,
    /// Clients can use the device.
    Ready = 1,
    /// Requests wait.
    Suspended = 2,
    /// The device is being removed.
    Removing = 3,
}

const PHASE_BITS: u64 = 3;
const ONE_CLIENT: u64 = 4;

impl Phase {
    fn of(word: u64) -> Self {
        match word & PHASE_BITS {
            0 => Self::Adding,
            1 => Self::Ready,
            2 => Self::Suspended,
            _ => Self::Removing,
        }
    }

    /// The phase's name, for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adding => "adding",
            Self::Ready => "ready",
            Self::Suspended => "suspended",
            Self::Removing => "removing",
        }
    }
}

/// Why an operation on a device failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No device has this name.
    #[error("there is no device '{0}'")]
    Unknown(String),
    /// A device has this name already.
    #[error("there is a device '{0}' already")]
    Exists(String),
    /// Clients use the device.
    #[error("'{name}' is in use: {clients} clients")]
    InUse {
        /// The device's name.
        name: String,
        /// The number of clients.
        clients: u64,
    },
    /// The device is being removed.
    #[error("'{0}' is being removed")]
    Removing(String),
    /// Too many changes of the device wait.
    #[error("{JOBS_MAX} changes of '{0}' wait already")]
    Busy(String),
    /// The name, or the description, is too long.
    #[error("a name has at most {} bytes", crate::proto::NAME_MAX)]
    Name,
    /// The back end failed.
    #[error("'{name}': {why}")]
    Backend {
        /// The device's name.
        name: String,
        /// The back end's error.
        why: String,
    },
}

type Answer = oneshot::Sender<Result<(), DeviceError>>;

/// A change of the device, and the channel for its result.
struct Job {
    what: Change,
    answer: Answer,
}

/// A job that was pushed to the lane.
struct Asked {
    action: Action,
    answered: oneshot::Receiver<Result<(), DeviceError>>,
}

enum Change {
    Open(Arc<Opener>),
    /// Does nothing; its end shows that all earlier jobs are done.
    Settle,
    Suspend,
    Resume,
    Resize(u64),
    Close,
}

/// A device. See the module's documentation.
pub(crate) struct Device {
    name: String,
    description: String,
    spec: Spec,
    allow: Allowed,
    word: AtomicU64,
    backend: OnceLock<Box<dyn Backend>>,
    pub(crate) gate: Gate,
    lane: Lane<Job>,
    /// True once removal has begun.
    going: watch::Sender<bool>,
    /// Notified when the last client has detached.
    left: Notify,
    runtime: Handle,
}

impl Device {
    fn new(definition: Definition, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            name: definition.name,
            description: definition.description,
            spec: definition.spec,
            allow: definition.allow,
            word: AtomicU64::new(Phase::Adding as u64),
            backend: OnceLock::new(),
            gate: Gate::default(),
            lane: Lane::new(&LANE, JOBS_MAX),
            going: watch::channel(false).0,
            left: Notify::new(),
            runtime,
        })
    }

    /// Creates a device whose back end is already open.
    fn with_backend(name: &str, backend: Box<dyn Backend>, runtime: Handle) -> Arc<Self> {
        let spec = Spec::memory(backend.size());
        let definition =
            Definition { name: name.to_owned(), description: String::new(), spec, allow: Default::default() };
        let device = Self::new(definition, runtime);
        let _ = device.backend.set(backend);
        device.word.store(Phase::Ready as u64, Ordering::Release);
        device
    }

    pub(crate) fn phase(&self) -> Phase {
        Phase::of(self.word.load(Ordering::Acquire))
    }

    fn clients(&self) -> u64 {
        // Acquire: after a client's detach is seen, so are its effects.
        self.word.load(Ordering::Acquire) / ONE_CLIENT
    }

    /// Attaches a client. Waits while the back end is being opened.
    pub(crate) async fn attach(self: &Arc<Self>) -> Result<Attached, DeviceError> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            match Phase::of(word) {
                Phase::Removing => return Err(DeviceError::Removing(self.name.clone())),
                Phase::Adding => self.change(Change::Settle).await?,
                Phase::Ready | Phase::Suspended => {
                    // AcqRel: the client sees the opened back end.
                    let more = word + ONE_CLIENT;
                    if self.word.compare_exchange(word, more, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                        return Ok(Attached(Arc::clone(self)));
                    }
                }
            }
        }
    }

    pub(crate) async fn suspend(self: &Arc<Self>) -> Result<(), DeviceError> {
        self.change(Change::Suspend).await
    }

    pub(crate) async fn resume(self: &Arc<Self>) -> Result<(), DeviceError> {
        self.change(Change::Resume).await
    }

    pub(crate) async fn resize(self: &Arc<Self>, size: u64) -> Result<(), DeviceError> {
        self.change(Change::Resize(size)).await
    }

    /// Refuses new clients from now on. With `forced`, attached clients are told to disconnect; without,
    /// it fails if any client is attached. Does not wait for the lane.
    fn begin_removal(&self, forced: bool) -> Result<(), DeviceError> {
        let removed = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let is_free = forced || word / ONE_CLIENT == 0;
            (Phase::of(word) != Phase::Removing && is_free).then_some(word | Phase::Removing as u64)
        });
        match removed {
            Ok(_) => {
                self.going.send_replace(true);
                Ok(())
            }
            Err(word) if Phase::of(word) == Phase::Removing => Err(DeviceError::Removing(self.name.clone())),
            Err(word) => Err(DeviceError::InUse { name: self.name.clone(), clients: word / ONE_CLIENT }),
        }
    }

    /// Closes the back end once all clients have detached. To be called after
    /// [`begin_removal`](Self::begin_removal).
    async fn close(self: &Arc<Self>) -> Result<(), DeviceError> {
        self.change(Change::Close).await
    }

    async fn change(self: &Arc<Self>, what: Change) -> Result<(), DeviceError> {
        let asked = self.ask(what)?;
        self.answered(asked).await
    }

    /// Pushes a job to the lane.
    fn ask(&self, what: Change) -> Result<Asked, DeviceError> {
        let (answer, answered) = oneshot::channel();
        match self.lane.push(Job { what, answer }) {
            Ok(action) => Ok(Asked { action, answered }),
            Err(_) => Err(DeviceError::Busy(self.name.clone())),
        }
    }

    /// Runs the lane if this job found it idle, and waits for the job's result.
    async fn answered(self: &Arc<Self>, asked: Asked) -> Result<(), DeviceError> {
        if asked.action == Action::Submit {
            self.run();
        }
        asked.answered.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Runs the lane on this thread until it has to wait, then in a task.
    fn run(self: &Arc<Self>) {
        let mut work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(Self::work(Arc::clone(self)));
        let _entered = self.runtime.enter();
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.runtime.spawn(work);
        }
    }

    async fn work(device: Arc<Self>) {
        let Some(mut run) = device.lane.begin() else { return };
        while let Some(job) = run.pop() {
            let done = device.carry_out(job.what).await;
            // The caller may have been dropped.
            let _ = job.answer.send(done);
        }
    }

    async fn carry_out(&self, what: Change) -> Result<(), DeviceError> {
        match what {
            Change::Settle => Ok(()),
            Change::Open(opener) => self.do_open(&opener).await,
            Change::Suspend => {
                self.still(self.gate.close()).await?;
                self.move_to(Phase::Suspended)
            }
            Change::Resume => {
                self.move_to(Phase::Ready)?;
                self.gate.open();
                Ok(())
            }
            Change::Resize(size) => self.do_resize(size).await,
            Change::Close => self.do_close().await,
        }
    }

    async fn do_open(&self, opener: &Arc<Opener>) -> Result<(), DeviceError> {
        match self.still(self.spec.open(opener)).await? {
            Ok(backend) => {
                let _ = self.backend.set(backend);
                self.move_to(Phase::Ready)
            }
            Err(e) => {
                // A removal may have begun meanwhile.
                let _ = self.begin_removal(true);
                Err(self.failed(e))
            }
        }
    }

    async fn do_resize(&self, size: u64) -> Result<(), DeviceError> {
        let Some(backend) = self.backend.get() else { return Err(self.gone()) };
        let was_closed = self.gate.is_closed();
        let closed = self.still(self.gate.close()).await;
        let done = match closed {
            Ok(()) => match self.still(backend.resize(size)).await {
                Ok(done) => done.map_err(|e| self.failed(e)),
                Err(gone) => Err(gone),
            },
            Err(gone) => Err(gone),
        };
        if !was_closed {
            self.gate.open();
        }
        done
    }

    async fn do_close(&self) -> Result<(), DeviceError> {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if self.clients() == 0 {
                break;
            }
            left.await;
        }
        match self.backend.get() {
            Some(backend) => backend.close().await.map_err(|e| self.failed(e)),
            None => Ok(()),
        }
    }

    /// Waits for `work`, but at most until removal begins: a removal does not wait for a stuck back end.
    async fn still<T>(&self, work: impl Future<Output = T>) -> Result<T, DeviceError> {
        let mut going = self.going.subscribe();
        tokio::select! {
            biased;
            done = work => Ok(done),
            _ = going.wait_for(|going| *going) => Err(self.gone()),
        }
    }

    /// Returns a guard that leaves the gate when it is dropped. The caller must have entered the gate.
    pub(crate) fn inside(self: &Arc<Self>) -> Inside {
        Inside(Arc::clone(self))
    }

    /// Starts an I/O that has waited; the device may have been shrunk meanwhile.
    pub(crate) fn start_again(&self, io: Io) -> Started {
        match self.backend.get() {
            Some(backend) if io.end() <= backend.size() => backend.start(io),
            Some(_) => Started::Now(Err(Fault::NoSpace)),
            None => Started::Now(Err(Fault::Shutdown)),
        }
    }

    /// Changes the phase, unless the device is being removed.
    fn move_to(&self, phase: Phase) -> Result<(), DeviceError> {
        let moved = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            (Phase::of(word) != Phase::Removing).then_some(word & !PHASE_BITS | phase as u64)
        });
        moved.map(drop).map_err(|_| self.gone())
    }

    fn gone(&self) -> DeviceError {
        DeviceError::Removing(self.name.clone())
    }

    fn failed(&self, why: impl fmt::Display) -> DeviceError {
        DeviceError::Backend { name: self.name.clone(), why: why.to_string() }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.name)
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}

/// A guard of an entered gate: leaves the gate when it is dropped.
pub(crate) struct Inside(Arc<Device>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

/// A client's reference to a device. The device's back end is closed only after all references are dropped.
#[derive(Debug)]
pub struct Attached(Arc<Device>);

impl Attached {
    /// The back end.
    pub(crate) fn backend(&self) -> &dyn Backend {
        // A client can attach only in a phase in which the back end is open.
        &**self.0.backend.get().expect("a device that is ready has a back end")
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.0
    }

    /// True once removal has begun.
    pub(crate) fn going(&self) -> watch::Receiver<bool> {
        self.0.going.subscribe()
    }

    /// The description of the export for a client that knows it as `name`.
    pub(crate) fn export_as(&self, name: &str) -> Export {
        let backend = self.backend();
        Export {
            name: name.to_owned(),
            description: self.0.description.clone(),
            size: backend.size(),
            can: backend.can(),
        }
    }

    /// Reads without a connection, for benchmarks and tests. Returns `false` if the read would have to
    /// wait.
    pub fn read_now(&self, offset: u64, len: u32, out: &mut bytes::BytesMut) -> bool {
        self.0.gate.enter() && {
            let done = self.backend().read_now(offset, len, out);
            self.0.gate.leave();
            done
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Release: the client's effects happen before the close.
        let before = self.0.word.fetch_sub(ONE_CLIENT, Ordering::Release);
        if before / ONE_CLIENT == 1 {
            self.0.left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
