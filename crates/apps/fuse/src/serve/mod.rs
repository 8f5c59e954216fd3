//! Answers to the kernel's requests.
//!
//! A request begins on the thread that read it; if it must wait, a task of the client's runtime goes on
//! with it and answers.

mod data;
mod dirs;
mod names;
mod nodes;
mod xattrs;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use loligo_fs::{Caller, Errno, Error, FileSystem, Metadata, Node};
use tokio::runtime::Handle;

use self::data::Opened;
use crate::attributes::{Shown, believed};
use crate::caller;
use crate::dirs::OpenDir;
use crate::handles::Handles;
use crate::invalidate::Invalidations;
use crate::kernel::{Answer, Device, Entry, Form, Head, Op, parse};
use crate::locks::Waiting;
use crate::nodes::Nodes;
use crate::pages::Waiting as WaitingRequest;

/// After what time the kernel is asked for an interrupt again, of a request that is not known to wait.
const AGAIN: Duration = Duration::from_millis(10);

/// What a mount promises the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// How attributes are shown.
    pub(crate) shown: Shown,
    /// The kernel may keep attributes as long as a server vouches for them.
    pub(crate) keeps_attrs: bool,
    /// The kernel may keep names as long as a server vouches for them.
    pub(crate) keeps_names: bool,
    /// The kernel leaves it to this program to take the umask off the mode of new files, which a default
    /// access control list replaces.
    pub(crate) masks: bool,
    /// This program checks permissions, and the kernel does not.
    pub(crate) checks: bool,
    /// How requests are read.
    pub(crate) form: Form,
}

/// A mount's answers.
pub(crate) struct Server {
    fs: FileSystem,
    nodes: Arc<Nodes>,
    invalidations: Arc<Invalidations>,
    files: Handles<Opened>,
    dirs: Handles<OpenDir>,
    waiting: Waiting,
    devices: OnceLock<Vec<Arc<Device>>>,
    policy: Policy,
    runtime: Handle,
}

impl Server {
    pub(crate) fn new(
        fs: FileSystem,
        nodes: Arc<Nodes>,
        invalidations: Arc<Invalidations>,
        policy: Policy,
        runtime: Handle,
    ) -> Arc<Self> {
        let (files, dirs, waiting) = (Handles::new(), Handles::new(), Waiting::default());
        let devices = OnceLock::new();
        Arc::new(Self { fs, nodes, invalidations, files, dirs, waiting, devices, policy, runtime })
    }

    /// Takes a request. Returns `false` if it ends the mount.
    pub(crate) fn take(self: &Arc<Self>, device: &Arc<Device>, request: &Bytes) -> bool {
        // A request without a head cannot be answered.
        let Ok((head, op)) = parse(request, self.policy.form) else { return true };
        let op = match op {
            Ok(Op::Destroy) => {
                device.answer(head.unique, &Ok(Answer::Done));
                return false;
            }
            Ok(op) => op,
            Err(_) => {
                device.answer(head.unique, &Err(Errno::EIO));
                return true;
            }
        };
        // The kernel holds no lock of a page while it waits for attributes.
        let locks_pages = !matches!(op, Op::GetAttr);
        let (this, device) = (Arc::clone(self), Arc::clone(device));
        let rest = begin(&self.runtime, async move {
            let answer = this.answer(&head, op).await;
            device.answer(head.unique, &answer.map_err(|e| e.errno()));
        });
        if let Some(rest) = rest {
            let waiting = if locks_pages { self.waiting_about(head.node) } else { None };
            self.runtime.spawn(async move {
                rest.await;
                drop(waiting);
            });
        }
        true
    }

    /// Asks the kernel to send an interrupt again, as it does while the request is in progress: only then
    /// it may still come to wait. Which device has the request is not known; the others refuse the answer.
    async fn interrupt_again(&self, unique: u64) {
        tokio::time::sleep(AGAIN).await;
        for device in self.devices.get().into_iter().flatten() {
            device.answer(unique, &Err(Errno::EAGAIN));
        }
    }

    /// The devices by which requests come.
    pub(crate) fn comes_by(&self, devices: Vec<Arc<Device>>) {
        let _ = self.devices.set(devices);
    }

    /// Notes that a request about a file waits here.
    fn waiting_about(&self, node: u64) -> Option<WaitingRequest> {
        self.nodes.pages(node).map(|pages| pages.waits())
    }

    /// Lets go of everything that the kernel had.
    pub(crate) fn clear(&self) {
        self.files.clear();
        self.dirs.clear();
    }

    async fn answer(&self, head: &Head, op: Op) -> Result<Answer, Error> {
        match op {
            Op::Forget { times } => {
                self.nodes.forget(head.node, times);
                Ok(Answer::Nothing)
            }
            Op::BatchForget { all } => {
                all.into_iter().for_each(|(node, times)| self.nodes.forget(node, times));
                Ok(Answer::Nothing)
            }
            Op::Interrupt { unique } => {
                if !self.waiting.interrupt(unique) {
                    self.interrupt_again(head.unique).await;
                }
                Ok(Answer::Nothing)
            }
            Op::Lookup { .. }
            | Op::SymLink { .. }
            | Op::MkNod { .. }
            | Op::MkDir { .. }
            | Op::Unlink { .. }
            | Op::RmDir { .. }
            | Op::Rename { .. }
            | Op::Link { .. } => self.names(head, op).await,
            Op::GetAttr | Op::SetAttr(_) | Op::ReadLink | Op::StatFs | Op::SyncFs | Op::FSyncDir => {
                self.about_node(head, op).await
            }
            Op::SetXattr { .. } | Op::GetXattr { .. } | Op::ListXattr { .. } | Op::RemoveXattr { .. } => {
                self.xattrs(head, op).await
            }
            Op::OpenDir | Op::ReadDir { .. } | Op::ReleaseDir { .. } => self.directories(head, op).await,
            // Permissions are checked where something is done.
            Op::Access | Op::Destroy | Op::Other => Err(Errno::ENOSYS.into()),
            op => self.data(head, op).await,
        }
    }

    /// Returns the user of a request that looks at something.
    fn looker(&self, head: &Head) -> Caller {
        if self.policy.checks { caller::with_groups(head) } else { caller::of(head) }
    }

    /// Returns the node of a request that looks at it.
    async fn seen(&self, head: &Head) -> Result<Node, Error> {
        self.node_for(head.node, self.looker(head)).await
    }

    /// Returns the node of a request that changes it, or something in it.
    async fn changed(&self, head: &Head) -> Result<Node, Error> {
        self.node_for(head.node, caller::with_groups(head)).await
    }

    async fn node_for(&self, number: u64, caller: Caller) -> Result<Node, Error> {
        Ok(self.nodes.find(number, &self.fs).await?.as_user(caller))
    }

    fn opened_file(&self, fh: u64) -> Result<Arc<Opened>, Error> {
        self.files.get(fh).ok_or(Errno::EBADF.into())
    }

    /// Returns the mode of something new. The kernel may leave the umask to this program, since a
    /// directory's default list replaces it.
    async fn mode(&self, dir: &Node, mode: u32, umask: u32) -> u32 {
        let keeps = !self.policy.masks || dir.xattr("system.posix_acl_default").await.is_ok();
        if keeps { mode } else { mode & !umask }
    }

    /// For how long the kernel may believe a node's attributes: not at all while it has pages of the file
    /// that it must not use without asking.
    fn attrs_for(&self, number: u64, node: &Node) -> Duration {
        if !self.policy.keeps_attrs {
            return Duration::ZERO;
        }
        let trust = node.trust();
        let must_ask = self.nodes.pages(number).is_some_and(|pages| pages.must_go(trust.data));
        if must_ask { Duration::ZERO } else { believed(trust) }
    }

    /// Waits until the kernel has dropped pages of a file that a read must not use.
    async fn settle_pages(&self, number: u64, node: &Node) {
        if let Some(pages) = self.nodes.pages(number) {
            self.invalidations.settle(number, &pages, node.trust().data).await;
        }
    }

    /// Tells the kernel of a node under a name.
    fn tell<'m>(&self, dir: &Node, name: &[u8], node: &Node, meta: &'m Metadata) -> Option<Entry<'m>> {
        let number = self.nodes.tell(node)?;
        let name_for = if self.policy.keeps_names { dir.entry_trust(name) } else { None };
        let name_for = name_for.unwrap_or(Duration::ZERO);
        Some(Entry { number, meta, name_for, attrs_for: self.attrs_for(number, node) })
    }

    /// Answers with a node that was found or made under a name.
    fn entry(&self, dir: &Node, name: &[u8], node: &Node) -> Result<Answer, Error> {
        let meta = node.known();
        let entry = self.tell(dir, name, node, &meta).ok_or(Errno::ENFILE)?;
        Ok(Answer::entry(entry, self.policy.shown))
    }
}

/// Begins a request on this thread. Returns what is left of it if it must wait: as a task it asks again
/// first, and hears of what happened meanwhile.
fn begin<F: Future<Output = ()> + Send + 'static>(runtime: &Handle, work: F) -> Option<Pin<Box<F>>> {
    let _inside = runtime.enter();
    let mut work = Box::pin(work);
    let nobody = Waker::noop();
    work.as_mut().poll(&mut Context::from_waker(nobody)).is_pending().then_some(work)
}
