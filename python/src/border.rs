//! The border between Python and Rust: threads, waiting, callbacks, `fork`.
//!
//! A process has one [`Home`]: a runtime that drives sockets and timers, a task that takes the operations in
//! the background their next steps, and threads that call back. It starts with the first use.
//!
//! After `fork` the child has none of these threads, and shares the parent's sockets. It therefore gets a
//! new home with the first use. What belongs to the parent's home fails in the child, and is never dropped
//! there: see [`Kept`].

use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use loligo_flight::Driver;
use loligo_wire::Errno;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::error::{Failure, What};

/// Threads that drive sockets: the work of a call is done on the caller's thread.
const WORKERS: usize = 2;

/// The most operations in the background that are not told of yet.
const UNDERWAY_MAX: usize = 65_536;

/// How often a waiting thread looks for signals, such as Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Callbacks that run under one acquisition of the interpreter's lock.
const CALLBACKS_AT_ONCE: usize = 256;

/// How long the interpreter's end waits at most for callbacks that run.
const LAST_CALLBACKS: Duration = Duration::from_secs(5);

static HOME: ArcSwapOption<Home> = ArcSwapOption::const_empty();

/// The interpreter ends: no callback begins any more.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// A callback that is due.
pub(crate) type Call = Box<dyn FnOnce(Python<'_>) + Send>;

/// What a process has one of.
pub(crate) struct Home {
    process: u32,
    pub(crate) runtime: Runtime,
    driver: Arc<Driver>,
    /// Tells of operations in the background that have ended.
    completions: Caller,
    underway: AtomicUsize,
    /// Tells of notifications and log entries. Its callbacks may wait for completions.
    pub(crate) events: Caller,
}

impl Home {
    /// Returns this process's home.
    pub(crate) fn get() -> PyResult<Arc<Self>> {
        loop {
            let found = HOME.load_full();
            if let Some(home) = found.as_ref().filter(|home| home.is_here()) {
                return Ok(Arc::clone(home));
            }
            let made = Arc::new(Self::start()?);
            let before = HOME.compare_and_swap(&found, Some(Arc::clone(&made)));
            if same(before.as_ref(), found.as_ref()) {
                // One reference for ever: a home is never dropped, neither at the end nor in a child.
                std::mem::forget(Arc::clone(&made));
                return Ok(made);
            }
        }
    }

    fn start() -> PyResult<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(WORKERS).thread_name("loligo-io").enable_all().build()?;
        Ok(Self {
            process: std::process::id(),
            driver: Driver::new(runtime.handle().clone()),
            completions: Caller::new("loligo-done"),
            runtime,
            underway: AtomicUsize::new(0),
            events: Caller::new("loligo-events"),
        })
    }

    /// Whether this process made it, and not the one from which it was forked.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Fails in a child of the process that made it.
    pub(crate) fn expect_here(&self) -> Result<(), Failure> {
        if self.is_here() {
            return Ok(());
        }
        let text = "it belongs to the process from which this one was forked: connect again";
        Err(Failure::new(Errno::ENOTCONN, text))
    }

    /// Runs an operation on the caller's thread, without the interpreter's lock. A signal handler of Python
    /// that raises, as that of Ctrl-C does, ends the wait, and the operation is dropped.
    pub(crate) fn wait<F>(&self, py: Python<'_>, operation: F) -> PyResult<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        py.detach(|| {
            loligo_lockstat::blocking_point("an operation of a Python program");
            let _context = self.runtime.enter();
            let mut operation = pin!(operation);
            let parker = Arc::new(Parker { thread: thread::current(), woken: AtomicBool::new(false) });
            let waker = Waker::from(Arc::clone(&parker));
            let mut context = Context::from_waker(&waker);
            loop {
                if let Poll::Ready(output) = operation.as_mut().poll(&mut context) {
                    return Ok(output);
                }
                // Acquire pairs with the Release in `wake_by_ref`: what the waker did is seen.
                while !parker.woken.swap(false, Ordering::Acquire) {
                    thread::park_timeout(SIGNALS_EVERY);
                    if !parker.woken.load(Ordering::Relaxed) {
                        Python::attach(|py| py.check_signals())?;
                    }
                }
            }
        })
    }
}

fn same(one: Option<&Arc<Home>>, other: Option<&Arc<Home>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// A thread that calls back, one callback after the other. It starts with the first one.
pub(crate) struct Caller {
    name: &'static str,
    /// The thread is in Python, or about to be.
    is_calling: Arc<AtomicBool>,
    calls: OnceLock<mpsc::UnboundedSender<Call>>,
}

impl Caller {
    fn new(name: &'static str) -> Self {
        Self { name, is_calling: Arc::default(), calls: OnceLock::new() }
    }

    /// Has the thread call back. What waits is bounded by the callers: operations under way are counted, and
    /// events are told of one at a time.
    pub(crate) fn push(&self, call: Call) {
        let calls = self.calls.get_or_init(|| {
            let (calls, due) = mpsc::unbounded_channel();
            // Without a thread nothing is told of; the system then refuses everything else as well.
            let is_calling = Arc::clone(&self.is_calling);
            let run = move || run_calls(due, &is_calling);
            let _ = thread::Builder::new().name(self.name.to_owned()).spawn(run);
            calls
        });
        let _ = calls.send(call);
    }

    /// Has the thread run `call`, and waits for its result; `None` if the interpreter ends.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(Python<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.push(Box::new(move |py| {
            let _ = answer.send(call(py));
        }));
        answered.await.ok()
    }
}

/// Runs callbacks until the interpreter ends.
///
/// The thread says that it calls, then looks whether the interpreter ends; [`end_callbacks`] does the
/// opposite. Both are sequentially consistent: of the two, one sees the other.
fn run_calls(mut due: mpsc::UnboundedReceiver<Call>, is_calling: &AtomicBool) {
    let mut calls = Vec::with_capacity(CALLBACKS_AT_ONCE);
    while due.blocking_recv_many(&mut calls, CALLBACKS_AT_ONCE) > 0 {
        is_calling.store(true, Ordering::SeqCst);
        let goes_on = !IS_ENDING.load(Ordering::SeqCst)
            && Python::try_attach(|py| calls.drain(..).for_each(|call| call(py))).is_some();
        is_calling.store(false, Ordering::SeqCst);
        if !goes_on {
            return;
        }
    }
}

/// Ends callbacks before the interpreter ends, and waits for those that run, five seconds at most: a thread
/// that is in Python when the interpreter ends aborts the process. Python calls this at its exit.
#[pyfunction]
pub(crate) fn end_callbacks(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    let Some(home) = HOME.load_full().filter(|home| home.is_here()) else { return };
    let is_calling = |caller: &Caller| caller.is_calling.load(Ordering::SeqCst);
    py.detach(|| {
        let until = Instant::now() + LAST_CALLBACKS;
        while (is_calling(&home.completions) || is_calling(&home.events)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Calls a callback of the program's. What it raises is reported as Python reports errors that nobody can
/// catch.
pub(crate) fn call_back<'py>(
    py: Python<'py>,
    callback: &Py<PyAny>,
    args: impl pyo3::call::PyCallArgs<'py>,
) -> Option<Bound<'py, PyAny>> {
    let callback = callback.bind(py);
    callback.call1(args).map_err(|error| error.write_unraisable(py, Some(callback))).ok()
}

/// Runs an operation in one of its two forms: see the crate's documentation.
pub(crate) fn run<T>(
    py: Python<'_>,
    home: &Arc<Home>,
    what: What,
    done: Option<Py<PyAny>>,
    operation: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> PyResult<Py<PyAny>>
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
{
    home.expect_here().map_err(|failure| what.error(py, failure))?;
    let Some(done) = done else {
        let result = home.wait(py, operation)?;
        return result.map_err(|failure| what.error(py, failure))?.into_py_any(py);
    };
    if home.underway.fetch_add(1, Ordering::Relaxed) >= UNDERWAY_MAX {
        home.underway.fetch_sub(1, Ordering::Relaxed);
        let text = format!("{UNDERWAY_MAX} operations are under way: wait for some of them first");
        return Err(what.error(py, Failure::new(Errno::EAGAIN, text)));
    }
    let (caller, teller) = (Arc::clone(home), Arc::clone(home));
    let operation = AssertUnwindSafe(operation).catch_unwind();
    let ended = move |result: std::thread::Result<Result<T, Failure>>| {
        let result = result.unwrap_or_else(|_| {
            Err(Failure::new(Errno::EIO, "an internal error of the library, which standard error has"))
        });
        caller.completions.push(Box::new(move |py| {
            tell(py, &done, what, result);
            teller.underway.fetch_sub(1, Ordering::Relaxed);
        }));
    };
    py.detach(|| home.driver.start(operation, ended));
    Ok(py.None())
}

/// Calls `done(value, None)` or `done(None, error)`.
fn tell<T>(py: Python<'_>, done: &Py<PyAny>, what: What, result: Result<T, Failure>)
where
    T: for<'py> IntoPyObject<'py>,
{
    let result = result.map_err(|failure| what.error(py, failure)).and_then(|value| value.into_py_any(py));
    match result {
        Ok(value) => drop(call_back(py, done, (value, py.None()))),
        Err(error) => drop(call_back(py, done, (py.None(), error.into_value(py)))),
    }
}

/// A value that belongs to a home. In a child after `fork` it is left alone: dropping it there would close
/// connections of the parent.
pub(crate) struct Kept<T> {
    pub(crate) home: Arc<Home>,
    value: Option<T>,
}

impl<T> Kept<T> {
    pub(crate) fn new(home: &Arc<Home>, value: T) -> Self {
        Self { home: Arc::clone(home), value: Some(value) }
    }

    /// Takes the value out.
    pub(crate) fn into_inner(mut self) -> T {
        self.value.take().expect("it is taken out once")
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is taken out at the end")
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.home.is_here() {
            let _context = self.home.runtime.enter();
            drop(value);
        } else {
            std::mem::forget(value);
        }
    }
}
