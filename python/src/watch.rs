//! Watches, and their callbacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{Confirmation, Notification, WatchNews};
use loligo_wire::Errno;
use pyo3::prelude::*;
use tokio::sync::oneshot;

use crate::border::{Home, call_back, run};
use crate::error::{Failure, What};
use crate::value::Data;

static STOP: Class = Class::new("python.watch");

type Ended = Result<(), loligo_rados::Error>;

/// A watch of an object.
#[pyclass(frozen, module = "loligo._native")]
pub(crate) struct Watch {
    home: Arc<Home>,
    oid: Vec<u8>,
    cookie: u64,
    confirmation: Confirmation,
    state: Arc<State>,
}

struct State {
    /// Used to end the watch; none when it is.
    stop: Mutex<Option<oneshot::Sender<oneshot::Sender<Ended>>>>,
    /// Why the watch is broken, as an errno; 0 while it is not.
    broken: AtomicI32,
}

/// The program's callbacks.
struct Listener {
    tell: Arc<Py<PyAny>>,
    fail: Option<Arc<Py<PyAny>>>,
}

impl Watch {
    /// Starts to call back for a watch.
    pub(crate) fn start(
        home: &Arc<Home>,
        watch: loligo_rados::Watch,
        oid: &[u8],
        tell: Py<PyAny>,
        fail: Option<Py<PyAny>>,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let state = Arc::new(State { stop: Mutex::new(&STOP, Some(stop)), broken: AtomicI32::new(0) });
        let (cookie, confirmation) = (watch.cookie(), watch.confirmation());
        let listener = Listener { tell: Arc::new(tell), fail: fail.map(Arc::new) };
        home.runtime.spawn(listen(Arc::clone(home), watch, Arc::clone(&state), listener, stopped));
        Self { home: Arc::clone(home), oid: oid.to_vec(), cookie, confirmation, state }
    }
}

async fn listen(
    home: Arc<Home>,
    mut watch: loligo_rados::Watch,
    state: Arc<State>,
    listener: Listener,
    mut stopped: oneshot::Receiver<oneshot::Sender<Ended>>,
) {
    let cookie = watch.cookie();
    let ending = loop {
        let news = tokio::select! {
            biased;
            ending = &mut stopped => break ending,
            news = watch.next() => news,
        };
        match news {
            Ok(WatchNews::Notified(notification)) => {
                // Those that come meanwhile wait in the bounded queue of the watch. The callback may end it.
                tokio::select! {
                    biased;
                    ending = &mut stopped => break ending,
                    () = listener.tell(&home, notification, cookie) => {}
                }
            }
            Ok(WatchNews::Missed) => listener.fail(&home, &state, Errno::ENOTCONN, cookie),
            Err(why) => {
                // The object is gone, or this client is: librados says ENOTCONN for both.
                let errno = if why.errno() == Errno::ENOENT { Errno::ENOTCONN } else { why.errno() };
                listener.fail(&home, &state, errno, cookie);
                break stopped.await;
            }
        }
    };
    let unwatched = watch.unwatch().await;
    if let Ok(answer) = ending {
        let _ = answer.send(unwatched);
    }
}

impl Listener {
    /// Calls back, and answers the notification with what the callback returns.
    async fn tell(&self, home: &Home, notification: Notification, cookie: u64) {
        let (id, notifier, tell) = (notification.id, notification.notifier.0, Arc::clone(&self.tell));
        let data = Data(notification.payload.clone());
        let answer = home.events.ask(move |py| {
            let answer = call_back(py, &tell, (id, notifier, cookie, data))?;
            // Whatever else is returned is no answer, as in python3-rados.
            answer.extract::<Data>().ok()
        });
        let answer = answer.await.flatten().map_or_else(Bytes::new, |data| data.0);
        notification.answer(answer);
    }

    fn fail(&self, home: &Home, state: &State, errno: Errno, cookie: u64) {
        state.broken.store(errno.0, Ordering::Relaxed);
        if let Some(fail) = self.fail.clone() {
            let error = errno.to_result();
            home.events.push(Box::new(move |py| drop(call_back(py, &fail, (cookie, error)))));
        }
    }
}

#[pymethods]
impl Watch {
    #[getter]
    fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Returns the seconds since the watch was confirmed.
    fn check(&self, py: Python<'_>) -> PyResult<f64> {
        match self.state.broken.load(Ordering::Relaxed) {
            0 => Ok(self.confirmation.age().as_secs_f64()),
            errno => {
                let failure = Failure::new(Errno(errno), "the watch is broken");
                Err(What::rados("check the watch of object", &self.oid).error(py, failure))
            }
        }
    }

    /// Ends the watch.
    #[pyo3(signature = (done=None))]
    fn close(&self, py: Python<'_>, done: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let stop = self.state.stop.lock().take();
        let what = What::rados("end the watch of object", &self.oid);
        run(py, &self.home, what, done, async move {
            let (answer, answered) = oneshot::channel();
            match stop.map(|stop| stop.send(answer)) {
                Some(Ok(())) => {
                    answered.await.unwrap_or(Err(loligo_rados::Error::Shutdown))?;
                    Ok(())
                }
                _ => Err(Failure::new(Errno::ENOTCONN, "it has ended")),
            }
        })
    }
}
