//! A watch of the program's: its task, its callbacks, and notifications that wait to be acknowledged.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{Confirmation, Notification, Watch, WatchNews};
use loligo_wire::Errno;
use tokio::sync::oneshot;

use crate::border::{Arg, Fail};
use crate::runtime::runtime;
use crate::strand::Strand;

static WATCH: Class = Class::new("capi.watch");

/// Notifications that may wait for the program to acknowledge them; the oldest is acknowledged for it.
const UNACKNOWLEDGED_MAX: usize = 1024;

/// `rados_watchcb_t`
pub(super) type OldCallback = unsafe extern "C" fn(opcode: u8, version: u64, arg: *mut c_void);
/// `rados_watchcb2_t`
pub(super) type NotifyCallback = unsafe extern "C" fn(
    arg: *mut c_void,
    notify: u64,
    handle: u64,
    notifier: u64,
    data: *mut c_void,
    len: usize,
);
/// `rados_watcherrcb_t`
pub(super) type ErrorCallback = unsafe extern "C" fn(arg: *mut c_void, cookie: u64, error: i32);

/// Whom a watch tells.
#[derive(Clone, Copy)]
pub(super) struct Listener {
    pub(super) arg: Arg,
    pub(super) tell: Tell,
    pub(super) error: Option<ErrorCallback>,
}

#[derive(Clone, Copy)]
pub(super) enum Tell {
    /// The library acknowledges.
    Old(OldCallback),
    /// The program acknowledges.
    New(NotifyCallback),
}

/// A watch in the handle's table.
pub(crate) struct WatchEntry {
    confirmation: Confirmation,
    state: Mutex<State>,
}

struct State {
    /// Dropped or used to end the watch.
    stop: Option<oneshot::Sender<Ending>>,
    unacknowledged: VecDeque<Notification>,
    /// Why the watch is broken, as an errno.
    broken: Option<i32>,
}

/// The answer to the end of a watch.
type Ending = oneshot::Sender<Result<(), loligo_rados::Error>>;

impl WatchEntry {
    /// Starts the task of a watch, which the program knows by this cookie.
    pub(super) fn start(watch: Watch, cookie: u64, listener: Listener, strand: Arc<Strand>) -> Arc<Self> {
        let (stop, stopped) = oneshot::channel();
        let state = State { stop: Some(stop), unacknowledged: VecDeque::new(), broken: None };
        let entry = Arc::new(Self { confirmation: watch.confirmation(), state: Mutex::new(&WATCH, state) });
        runtime().spawn(Arc::clone(&entry).listen(watch, cookie, listener, strand, stopped));
        entry
    }

    async fn listen(
        self: Arc<Self>,
        mut watch: Watch,
        cookie: u64,
        listener: Listener,
        strand: Arc<Strand>,
        mut stopped: oneshot::Receiver<Ending>,
    ) {
        // Why the object has no watch, if it is gone.
        let mut gone = None;
        let ending = loop {
            let news = tokio::select! {
                biased;
                ending = &mut stopped => break Some(ending),
                news = watch.next() => news,
            };
            match news {
                Ok(WatchNews::Notified(notification)) => {
                    let entry = Arc::clone(&self);
                    let told = strand.push_and_wait(move || entry.deliver(notification, cookie, listener));
                    // Those that come meanwhile wait in the bounded queue of the watch, which the callback
                    // may end.
                    tokio::select! {
                        biased;
                        ending = &mut stopped => break Some(ending),
                        () = told => {}
                    }
                }
                Ok(WatchNews::Missed) => {
                    self.tell_error(Errno::ENOTCONN, cookie, listener, &strand);
                    break None;
                }
                Err(why) => {
                    self.tell_error(why.errno(), cookie, listener, &strand);
                    gone = why.is_not_found().then_some(why);
                    break None;
                }
            }
        };
        // A broken watch hears nothing any more: the program ends it and watches again.
        let unwatched = gone.map_or(watch.unwatch().await, Err);
        let unacknowledged = std::mem::take(&mut self.state.lock().unacknowledged);
        // Their acknowledgements are sent here, without the lock.
        drop(unacknowledged);
        let ending = match ending {
            Some(ending) => ending,
            None => stopped.await,
        };
        if let Ok(answer) = ending {
            let _ = answer.send(unwatched);
        }
    }

    fn deliver(&self, notification: Notification, cookie: u64, listener: Listener) {
        let data = notification.payload.clone();
        let (id, notifier) = (notification.id, notification.notifier.0);
        match listener.tell {
            Tell::Old(callback) => {
                // SAFETY: the program gave the callback for this argument.
                unsafe { callback(0, id, listener.arg.0) };
                notification.answer(Bytes::new());
            }
            Tell::New(callback) => {
                let overdue = {
                    let mut state = self.state.lock();
                    state.unacknowledged.push_back(notification);
                    if state.unacknowledged.len() > UNACKNOWLEDGED_MAX {
                        state.unacknowledged.pop_front()
                    } else {
                        None
                    }
                };
                drop(overdue);
                let start = data.as_ptr().cast_mut().cast();
                // SAFETY: the program gave the callback for this argument; the data lives until it returns.
                unsafe { callback(listener.arg.0, id, cookie, notifier, start, data.len()) };
            }
        }
    }

    fn tell_error(&self, errno: Errno, cookie: u64, listener: Listener, strand: &Arc<Strand>) {
        // An object that is gone has no watch: librados says the same as of a broken one.
        let error = if errno == Errno::ENOENT { Errno::ENOTCONN } else { errno }.to_result();
        self.state.lock().broken = Some(error);
        if let Some(callback) = listener.error {
            // SAFETY: the program gave the callback for this argument.
            strand.push(move || unsafe { callback({ listener }.arg.0, cookie, error) });
        }
    }

    /// Acknowledges a notification.
    pub(super) fn acknowledge(&self, id: u64, answer: Bytes) {
        let found = {
            let mut state = self.state.lock();
            let at = state.unacknowledged.iter().position(|notification| notification.id == id);
            at.and_then(|at| state.unacknowledged.remove(at))
        };
        if let Some(notification) = found {
            notification.answer(answer);
        }
    }

    /// Milliseconds since the watch was confirmed, and one more.
    ///
    /// # Errors
    /// Why the watch is broken.
    pub(super) fn check(&self) -> Result<i32, Fail> {
        if let Some(error) = self.state.lock().broken {
            return Err(Fail(error));
        }
        Ok(i32::try_from(self.confirmation.age().as_millis() + 1).unwrap_or(i32::MAX))
    }

    /// Ends the watch and waits for the OSD's word.
    pub(super) async fn end(&self) -> Result<(), loligo_rados::Error> {
        let (answer, answered) = oneshot::channel();
        let stop = self.state.lock().stop.take();
        match stop.map(|stop| stop.send(answer)) {
            Some(Ok(())) => answered.await.unwrap_or(Err(loligo_rados::Error::Shutdown)),
            _ => Err(Errno::ENOTCONN.into()),
        }
    }

    /// Ends the watch without waiting.
    pub(super) fn leave(&self) {
        drop(self.state.lock().stop.take());
    }
}
