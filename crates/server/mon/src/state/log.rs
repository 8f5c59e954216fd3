//! The cluster's log: events, and an audit of commands (`ceph log last`). Only the newest lines are
//! kept, in memory.

use std::collections::VecDeque;
use std::fmt;

use az::SaturatingAs as _;
use loligo_wire::message::mon::LogEntry;
use loligo_wire::{EntityAddr, EntityAddrVec, EntityName, EntityNum, EntityType, UTime};

use crate::output::units;

/// Maximum number of lines kept (Ceph keeps 10,000 for each channel).
const LINES_MAX: usize = 2_000;
/// Maximum bytes kept: texts, names, channels and addresses.
const BYTES_MAX: usize = 2 << 20;

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Debugging.
    Debug = 0,
    /// Information.
    Info = 1,
    /// Security.
    Sec = 2,
    /// Something may be wrong.
    Warn = 3,
    /// Something is wrong.
    Error = 4,
}

impl Severity {
    /// Parses a word, as used by `ceph log last`.
    pub fn from_word(word: &str) -> Option<Self> {
        let code = ["debug", "info", "sec", "warn", "error"].iter().position(|w| *w == word)?;
        Self::from_code(code.saturating_as::<u16>())
    }

    /// The severity with a number.
    pub fn from_code(code: u16) -> Option<Self> {
        [Self::Debug, Self::Info, Self::Sec, Self::Warn, Self::Error].into_iter().find(|s| *s as u16 == code)
    }

    /// The severity's tag in printed lines.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Debug => "[DBG]",
            Self::Info => "[INF]",
            Self::Sec => "[SEC]",
            Self::Warn => "[WRN]",
            Self::Error => "[ERR]",
        }
    }
}

/// The newest lines of all channels.
#[derive(Clone, Debug, Default)]
pub struct ClusterLog {
    lines: VecDeque<LogEntry>,
    bytes: usize,
    last_seq: u64,
    /// Number of lines since the start, including dropped ones.
    count: u64,
}

impl ClusterLog {
    /// Adds a line, and drops the oldest ones beyond the bounds.
    pub fn push(&mut self, entry: LogEntry) {
        self.bytes += bytes_of(&entry);
        self.count += 1;
        self.lines.push_back(entry);
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= bytes_of(&oldest);
        }
    }

    /// Adds a line written by the monitor.
    pub fn say(&mut self, stamp: UTime, severity: Severity, channel: &str, message: String) {
        self.last_seq += 1;
        self.push(LogEntry {
            name: EntityName { kind: EntityType::MON, id: super::MON_ID.to_owned() },
            rank: EntityNum { kind: EntityType::MON, num: 0 },
            addrs: EntityAddrVec::default(),
            stamp,
            seq: self.last_seq,
            prio: severity as u16,
            message,
            channel: channel.to_owned(),
        });
    }

    /// The number of lines since the start, which is also the number of the newest line.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The lines from this number on that are still kept.
    pub fn since(&self, number: u64) -> impl Iterator<Item = &LogEntry> {
        let oldest = self.count - self.lines.len() as u64 + 1;
        self.lines.iter().skip(number.saturating_sub(oldest).saturating_as::<usize>())
    }

    /// The last `n` lines of a channel (all channels: `*`) with at least this severity, oldest first.
    pub fn last(&self, n: usize, least: Severity, channel: &str) -> Vec<&LogEntry> {
        let fits =
            |entry: &&LogEntry| severity(entry) >= least && (channel == "*" || entry.channel == channel);
        let mut found: Vec<_> = self.lines.iter().rev().filter(fits).take(n).collect();
        found.reverse();
        found
    }
}

/// The memory that a line takes, in bytes.
fn bytes_of(entry: &LogEntry) -> usize {
    let addrs = entry.addrs.0.len() * size_of::<EntityAddr>();
    size_of::<LogEntry>() + entry.message.len() + entry.channel.len() + entry.name.id.len() + addrs
}

/// The severity of a line; unknown numbers count as errors.
pub fn severity(entry: &LogEntry) -> Severity {
    Severity::from_code(entry.prio).unwrap_or(Severity::Error)
}

/// The writer's number; `?` for clients that write by a command.
pub fn rank(entry: &LogEntry) -> String {
    match entry.rank {
        EntityNum { kind, num: ..0 } => format!("{kind}.?"),
        known => known.to_string(),
    }
}

/// A line as `ceph log last` prints it.
pub struct Line<'a>(pub &'a LogEntry);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogEntry { name, stamp, seq, channel, message, .. } = self.0;
        let (stamp, rank) = (units::stamp(*stamp), rank(self.0));
        write!(f, "{stamp} {name} ({rank}) {seq} : {channel} {} {message}", severity(self.0).tag())
    }
}

/// The names of log subscriptions, each with its minimum severity.
pub(crate) const SUBSCRIPTIONS: [(&str, Severity); 5] = [
    ("log-debug", Severity::Debug),
    ("log-info", Severity::Info),
    ("log-sec", Severity::Sec),
    ("log-warn", Severity::Warn),
    ("log-error", Severity::Error),
];

/// Whether this is the name of a log subscription.
pub(crate) fn is_level(what: &str) -> bool {
    SUBSCRIPTIONS.iter().any(|(level, _)| *level == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_long_in_a_line_counts() {
        let line = |channel: usize, message: usize| LogEntry {
            name: EntityName::client("a"),
            rank: EntityNum { kind: EntityType::CLIENT, num: 1 },
            addrs: EntityAddrVec::default(),
            stamp: UTime::default(),
            seq: 1,
            prio: Severity::Info as u16,
            message: "m".repeat(message),
            channel: "c".repeat(channel),
        };
        for (channel, message) in [(1 << 20, 1), (1, 1 << 20), (100_000, 100_000), (1, 1)] {
            let mut log = ClusterLog::default();
            (0..LINES_MAX + 100).for_each(|_| log.push(line(channel, message)));
            let kept: usize = log.lines.iter().map(|line| line.channel.len() + line.message.len()).sum();
            assert!(
                kept <= BYTES_MAX && log.lines.len() <= LINES_MAX,
                "{kept} bytes of {channel}, {message}"
            );
            assert_eq!(log.bytes, log.lines.iter().map(bytes_of).sum::<usize>());
        }
    }
}
