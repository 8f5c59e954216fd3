//! The cluster's log: what happened, and who ordered what (`ceph log last`). Kept in memory, the newest lines
//! only.

use std::collections::VecDeque;
use std::fmt;

use az::SaturatingAs as _;
use loligo_wire::message::mon::LogEntry;
use loligo_wire::{EntityAddr, EntityAddrVec, EntityName, EntityNum, EntityType, UTime};

use crate::output::units;

/// Lines kept (Ceph keeps 10,000 for each channel).
const LINES_MAX: usize = 2_000;
/// Bytes kept: of texts, names, channels and addresses.
const BYTES_MAX: usize = 2 << 20;

/// How grave a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For the search for faults.
    Debug = 0,
    /// News.
    Info = 1,
    /// Security.
    Sec = 2,
    /// Something may be wrong.
    Warn = 3,
    /// Something is wrong.
    Error = 4,
}

impl Severity {
    /// The one with a word, as `ceph log last` takes it.
    pub fn from_word(word: &str) -> Option<Self> {
        let code = ["debug", "info", "sec", "warn", "error"].iter().position(|w| *w == word)?;
        Self::from_code(code.saturating_as::<u16>())
    }

    /// The one with a number.
    pub fn from_code(code: u16) -> Option<Self> {
        [Self::Debug, Self::Info, Self::Sec, Self::Warn, Self::Error].into_iter().find(|s| *s as u16 == code)
    }

    /// The letters in brackets.
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
    /// Lines since the start, forgotten ones too.
    count: u64,
}

impl ClusterLog {
    /// Adds a line, and forgets the oldest ones beyond the bounds.
    pub fn push(&mut self, entry: LogEntry) {
        self.bytes += bytes_of(&entry);
        self.count += 1;
        self.lines.push_back(entry);
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= bytes_of(&oldest);
        }
    }

    /// Adds a line of the monitor's own.
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

    /// How many lines there were since the start: the number of the newest one.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Lines from this number on, as far as they are kept.
    pub fn since(&self, number: u64) -> impl Iterator<Item = &LogEntry> {
        let oldest = self.count - self.lines.len() as u64 + 1;
        self.lines.iter().skip(number.saturating_sub(oldest).saturating_as::<usize>())
    }

    /// The last `n` lines of a channel (all channels: `*`) that are at least so grave, oldest first.
    pub fn last(&self, n: usize, least: Severity, channel: &str) -> Vec<&LogEntry> {
        let fits =
            |entry: &&LogEntry| severity(entry) >= least && (channel == "*" || entry.channel == channel);
        let mut found: Vec<_> = self.lines.iter().rev().filter(fits).take(n).collect();
        found.reverse();
        found
    }
}

/// What a line takes.
fn bytes_of(entry: &LogEntry) -> usize {
    let addrs = entry.addrs.0.len() * size_of::<EntityAddr>();
    size_of::<LogEntry>() + entry.message.len() + entry.channel.len() + entry.name.id.len() + addrs
}

/// How grave a line is; unknown numbers count as errors.
pub fn severity(entry: &LogEntry) -> Severity {
    Severity::from_code(entry.prio).unwrap_or(Severity::Error)
}

/// The writer's number; clients that write by a command have none.
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

/// What a client subscribes to for lines that are at least so grave.
pub(crate) const SUBSCRIPTIONS: [(&str, Severity); 5] = [
    ("log-debug", Severity::Debug),
    ("log-info", Severity::Info),
    ("log-sec", Severity::Sec),
    ("log-warn", Severity::Warn),
    ("log-error", Severity::Error),
];

/// Whether that is what a client subscribes to for lines of the log.
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
