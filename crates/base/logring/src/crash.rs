//! What is written when the program ends badly, and what becomes of the log in a forked child.
//!
//! # What is async-signal-safe, and what is not
//! The signal handler only loads and stores atomics, rings the log thread's bell and waits for it (`futex`),
//! calls `write`, `sigaction`, `pthread_self` and `raise`: all of that may be done in a signal handler. The
//! dump itself is made by the log thread, which is sound as long as the crash has not happened to it: it
//! formats, allocates and writes as ever. So three things can go wrong, and each ends after
//! [`PATIENCE_STEPS`] at the latest, with the program's death and without a dump: the allocator was broken or
//! locked by the thread that crashed; the disk does not answer; the log thread itself has crashed. In the
//! last case one line on standard error says so.
//!
//! The handler runs on the thread's alternate stack where there is one (Rust's threads have one), so that
//! also a stack overflow is seen. Afterwards the handler that was there before is put back and finds the
//! fault again; a signal that was sent is raised again and ends the program.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64};

use crate::asks::{self, this_thread};

/// How long a crash waits for its dump, in tenths of a second.
const PATIENCE_STEPS: u32 = 30;

const SIGNALS: [(libc::c_int, &str); 5] = [
    (libc::SIGSEGV, "Segmentation fault"),
    (libc::SIGBUS, "Bus error"),
    (libc::SIGILL, "Illegal instruction"),
    (libc::SIGFPE, "Floating point exception"),
    (libc::SIGABRT, "Aborted"),
];

/// The handlers that were there before ours.
static EARLIER: [AtomicPtr<libc::sigaction>; SIGNALS.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SIGNALS.len()];
/// The first signal and its thread, for the log thread.
static CAUGHT: AtomicI32 = AtomicI32::new(0);
static CAUGHT_BY: AtomicU64 = AtomicU64::new(0);
static FORKED: AtomicBool = AtomicBool::new(false);

/// Installs the panic hook, the signal handlers and the handler of forks, once.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        install_panic_hook();
        SIGNALS.iter().zip(&EARLIER).for_each(|((signal, _), earlier)| install_handler(*signal, earlier));
    });
}

/// Lets a forked child know that it has no log thread. Once; also for programs that want no dump.
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    extern "C" fn child() {
        FORKED.store(true, SeqCst);
        asks::forked();
    }
    // SAFETY: the handler is a plain function that only stores atomics.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(child));
    });
}

pub(crate) fn is_forked() -> bool {
    FORKED.load(SeqCst)
}

/// The signal that ends the program, and the thread that it was delivered to.
pub(crate) fn caught() -> Option<(libc::c_int, u64)> {
    let signal = CAUGHT.load(SeqCst);
    (signal != 0).then(|| (signal, CAUGHT_BY.load(SeqCst)))
}

pub(crate) fn name_of(signal: libc::c_int) -> &'static str {
    SIGNALS.iter().find(|(number, _)| *number == signal).map_or("unknown", |(_, name)| name)
}

fn install_panic_hook() {
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A value that cannot be formatted panics in the log thread, which says so in the line itself.
        if asks::is_open() && !asks::is_log_thread() {
            let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
            crate::line(crate::Subsys::NONE, -1, format_args!("thread '{name}' panicked: {panic}"));
            asks::dump_within(PATIENCE_STEPS);
        }
        earlier(panic);
    }));
}

fn install_handler(signal: libc::c_int, earlier: &AtomicPtr<libc::sigaction>) {
    // SAFETY: a `sigaction` of zeros is valid: no flags, no handler.
    let (mut ours, mut theirs) = unsafe { std::mem::zeroed::<(libc::sigaction, libc::sigaction)>() };
    ours.sa_sigaction = on_signal as *const () as usize;
    ours.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
    // SAFETY: both live over the calls. What was there is kept before ours can run and ask for it.
    unsafe {
        libc::sigemptyset(&mut ours.sa_mask);
        if libc::sigaction(signal, ptr::null(), &mut theirs) == 0 {
            earlier.store(Box::into_raw(Box::new(theirs)), SeqCst);
            libc::sigaction(signal, &ours, ptr::null_mut());
        }
    }
}

/// See the module for what this may do.
extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CAUGHT_BY.store(this_thread(), SeqCst);
    CAUGHT.store(signal, SeqCst);
    if asks::is_open() && asks::is_log_thread() {
        let text = b"loligo-logring: the log thread has crashed, recent entries are lost\n";
        // SAFETY: the text outlives the call.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    } else {
        asks::dump_within(PATIENCE_STEPS);
    }
    // SAFETY: the kernel's `info` is valid in a handler.
    let was_sent = unsafe { (*info).si_code } <= 0;
    let index = SIGNALS.iter().position(|(number, _)| *number == signal);
    let earlier = match index {
        // Rust's handler takes SIGSEGV and SIGBUS for faults that will be repeated, and would let the program
        // live.
        _ if was_sent && signal != libc::SIGABRT => ptr::null_mut(),
        Some(index) => EARLIER[index].load(SeqCst),
        None => ptr::null_mut(),
    };
    // SAFETY: `earlier` is null or was leaked by `install_handler`.
    unsafe {
        if earlier.is_null() {
            libc::signal(signal, libc::SIG_DFL);
        } else {
            libc::sigaction(signal, earlier, ptr::null_mut());
        }
        // What the processor refused, it refuses again when this returns, and the earlier handler sees where
        // (Rust's tells of a stack overflow). Who sent a signal does not send it again; it is blocked here
        // and arrives then, too.
        if was_sent {
            libc::raise(signal);
        }
    }
}
