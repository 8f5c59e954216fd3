//! The cluster's log, as the monitors send it to clients that ask.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loligo_rados::{ClusterLog, LogEntry};
use loligo_wire::Errno;

use super::Client;
use super::client::LogListener;
use crate::border::{Arg, Fail, Lent, calls};
use crate::memory::text;
use crate::strand::Strand;

type Callback = unsafe extern "C" fn(
    arg: *mut c_void,
    line: *const c_char,
    who: *const c_char,
    seconds: u64,
    nanoseconds: u64,
    seq: u64,
    level: *const c_char,
    message: *const c_char,
);

type Callback2 = unsafe extern "C" fn(
    arg: *mut c_void,
    line: *const c_char,
    channel: *const c_char,
    who: *const c_char,
    name: *const c_char,
    seconds: u64,
    nanoseconds: u64,
    seq: u64,
    level: *const c_char,
    message: *const c_char,
);

#[derive(Clone, Copy)]
enum Listener {
    First(Callback),
    Second(Callback2),
}

/// The name of a level as the monitors have it.
fn level_of(name: &str) -> Result<&'static str, Fail> {
    Ok(match name {
        "debug" => "log-debug",
        "info" => "log-info",
        "warn" | "warning" => "log-warn",
        "err" | "error" => "log-error",
        "sec" => "log-sec",
        _ => return Err(Errno::EINVAL.into()),
    })
}

/// The name of an entry's severity.
fn severity(entry: &LogEntry) -> &'static str {
    match entry.prio {
        0 => "[DBG]",
        1 => "[INF]",
        2 => "[SEC]",
        3 => "[WRN]",
        4 => "[ERR]",
        _ => "[???]",
    }
}

/// Texts of an entry for C; a NUL within ends them.
fn text_for_c(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

impl Listener {
    fn tell(self, arg: Arg, entry: &LogEntry) {
        let since = entry.stamp.to_system().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let (level, who) = (severity(entry), entry.rank.to_string());
        let line = format!("{} {} {level} {}", since.as_secs_f64(), entry.name, entry.message);
        let [line, who, name, level, channel, message] =
            [&line, &who, &entry.name.to_string(), level, &entry.channel, &entry.message].map(text_for_c);
        let (seconds, nanoseconds) = (since.as_secs(), since.subsec_nanos().into());
        // SAFETY: the program gave the callback for this argument; the texts live until it returns.
        unsafe {
            match self {
                Self::First(callback) => callback(
                    arg.0,
                    line.as_ptr(),
                    who.as_ptr(),
                    seconds,
                    nanoseconds,
                    entry.seq,
                    level.as_ptr(),
                    message.as_ptr(),
                ),
                Self::Second(callback) => callback(
                    arg.0,
                    line.as_ptr(),
                    channel.as_ptr(),
                    who.as_ptr(),
                    name.as_ptr(),
                    seconds,
                    nanoseconds,
                    entry.seq,
                    level.as_ptr(),
                    message.as_ptr(),
                ),
            }
        }
    }
}

/// When an entry was written, in nanoseconds since 1970.
fn time_of(entry: &LogEntry) -> u64 {
    let since = entry.stamp.to_system().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Tells of the entries of a subscription. A new one begins with the last entry of the log, which an earlier
/// one may have told of.
async fn deliver(
    mut entries: ClusterLog,
    strand: Arc<Strand>,
    told: Arc<AtomicU64>,
    wanted: Arc<AtomicBool>,
    (listener, arg): (Listener, Arg),
) {
    let mut is_first = true;
    while let Some(entry) = entries.recv().await {
        let time = time_of(&entry);
        let newest = told.fetch_max(time, Ordering::AcqRel);
        if std::mem::take(&mut is_first) && time <= newest {
            continue;
        }
        let is_wanted = Arc::clone(&wanted);
        // One entry at a time: those that come meanwhile wait in the bounded queue of the subscription.
        let telling = strand.push_and_wait(move || {
            if is_wanted.load(Ordering::Acquire) {
                listener.tell(arg, &entry);
            }
        });
        telling.await;
    }
}

/// Listens from now on, or no longer.
fn listen(client: &Arc<Client>, level: &str, listener: Option<Listener>, arg: Arg) -> Result<c_int, Fail> {
    let level = listener.map(|_| level_of(level)).transpose()?;
    client.stop_log();
    client.watch_strand.flush();
    let (Some(listener), Some(level)) = (listener, level) else { return Ok(0) };
    let rados = client.rados()?;
    let entries = rados.cluster_log(level)?;
    let (strand, told) = (Arc::clone(&client.watch_strand), Arc::clone(&client.log_told));
    let wanted = Arc::new(AtomicBool::new(true));
    let delivery = deliver(entries, strand, told, Arc::clone(&wanted), (listener, arg));
    let task = crate::runtime::runtime().spawn(delivery);
    *client.log.lock() = Some(LogListener { task, wanted });
    Ok(0)
}

calls! {
    /// Has the callback told of the cluster's log; NULL ends it.
    fn rados_monitor_log(
        cluster: *mut c_void, level: *const c_char, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        listen(&Client::shared(cluster)?, text(level)?, callback.map(Listener::First), Lent(arg))
    }

    /// Has the callback told of the cluster's log, with channels; NULL ends it.
    fn rados_monitor_log2(
        cluster: *mut c_void, level: *const c_char, callback: Option<Callback2>, arg: *mut c_void,
    ) -> c_int {
        listen(&Client::shared(cluster)?, text(level)?, callback.map(Listener::Second), Lent(arg))
    }
}
