//! The dump on a crash, and the log in a forked child.
//!
//! # Async-signal safety
//! The signal handler only loads and stores atomics, rings the log thread's bell and waits for it
//! (`futex`), and calls `write`, `sigaction`, `signal`, `pthread_self` and `raise`. All of these are
//! allowed in a signal handler. The log thread writes the dump. It formats, allocates and writes as
//! usual, which is sound unless the log thread itself has crashed. Three things can go wrong: the
//! crashed thread has corrupted or locked the allocator, the disk does not answer, or the log thread
//! itself has crashed. In each case the program ends without a dump, after [`PATIENCE_STEPS`] at the
//! latest. In the last case a line on standard error reports it.
//!
//! The handler runs on the thread's alternate stack if there is one (Rust's threads have one), so that
//! it can handle a stack overflow, too. Afterwards it restores the earlier handler, which then gets the
//! same fault again. A signal sent by a process is raised again and ends the program.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64};

use crate::asks::{self, this_thread};

/// The longest wait of a crash for its dump, in tenths of a second.
const PATIENCE_STEPS: u32 = 30;

const SIGNALS: [(libc::c_int, &str); 5] = [
    (libc::SIGSEGV, "Segmentation fault"),
    (libc::SIGBUS, "Bus error"),
    (libc::SIGILL, "Illegal instruction"),
    (libc::SIGFPE, "Floating point exception"),
    (libc::SIGABRT, "Aborted"),
];

/// The handlers that were installed before those of this module.
static EARLIER: [AtomicPtr<libc::sigaction>; SIGNALS.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SIGNALS.len()];
/// The first signal and its thread, for the log thread.
static CAUGHT: AtomicI32 = AtomicI32::new(0);
static CAUGHT_BY: AtomicU64 = AtomicU64::new(0);
static FORKED: AtomicBool = AtomicBool::new(false);

/// Installs the panic hook and the signal handlers, once.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        install_panic_hook();
        SIGNALS.iter().zip(&EARLIER).for_each(|((signal, _), earlier)| install_handler(*signal, earlier));
    });
}

/// Installs a handler that tells a forked child that it has no log thread, once. Also used by programs
/// without dumps.
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

/// Returns the signal that ends the program, and the thread that received it.
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
        // A value whose formatting panics does so in the log thread, which reports it in the line
        // itself.
        if asks::is_open() && !asks::is_log_thread() {
            let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
            crate::line(crate::Subsys::NONE, -1, format_args!("thread '{name}' panicked: {panic}"));
            asks::dump_within(PATIENCE_STEPS);
        }
        earlier(panic);
    }));
}

fn install_handler(signal: libc::c_int, earlier: &AtomicPtr<libc::sigaction>) {
    // SAFETY: a zeroed `sigaction` is valid: no flags, no handler.
    let (mut ours, mut theirs) = unsafe { std::mem::zeroed::<(libc::sigaction, libc::sigaction)>() };
    ours.sa_sigaction = on_signal as *const () as usize;
    ours.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
    // SAFETY: both outlive the calls. The earlier handler is stored before the new one can run and read
    // it.
    unsafe {
        libc::sigemptyset(&mut ours.sa_mask);
        if libc::sigaction(signal, ptr::null(), &mut theirs) == 0 {
            earlier.store(Box::into_raw(Box::new(theirs)), SeqCst);
            libc::sigaction(signal, &ours, ptr::null_mut());
        }
    }
}

/// The signal handler. The module's documentation lists what it may do.
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
        // Rust's handler treats SIGSEGV and SIGBUS as faults that will be repeated, and would let the
        // program continue.
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
        // A faulting instruction faults again when this returns, and the earlier handler sees its
        // address (Rust's reports a stack overflow). A sent signal is not repeated by its sender, so it
        // is raised here; it is blocked now, and is delivered on return, too.
        if was_sent {
            libc::raise(signal);
        }
    }
}
