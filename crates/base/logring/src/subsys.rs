//! Subsystems and their levels.

use std::fmt;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU16};

/// Below every level: disables recording.
const OFF: i8 = i8::MIN;

/// The highest level that can be set; Ceph documents 20 and accepts 99.
const LEVEL_MAX: u8 = 99;

/// A part of the program with its own log levels: `debug_NAME` in Ceph's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subsys(u8);

/// The highest levels of a subsystem's entries that are written, and that are kept in memory for a
/// crash.
///
/// Levels are Ceph's: −1 is an error and always written, 0 to 1 for operators, 5 for events, 10 for
/// operations, 20 for details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Entries up to this level are written as lines, 0 to 99.
    pub log: u8,
    /// Entries up to this level are kept in memory, 0 to 99.
    pub gather: u8,
}

/// The reason why an option was not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The option is not `debug_` and the name of a subsystem.
    #[error("no such option: {0}")]
    Unknown(String),
    /// The value is not one or two levels.
    #[error("option {option} = '{value}': a level from 0 to 99, or two with a slash, expected")]
    Value {
        /// The name of the option.
        option: String,
        /// The refused value.
        value: String,
    },
}

macro_rules! subsystems {
    ($($(#[$doc:meta])* $id:ident, $name:literal, $alias:literal, $log:literal / $gather:literal;)*) => {
        #[allow(clippy::upper_case_acronyms)]
        enum Index { $($id),* }

        impl Subsys {
            $($(#[$doc])* pub const $id: Self = Self(Index::$id as u8);)*

            /// All subsystems.
            pub const ALL: &'static [Self] = &[$(Self::$id),*];
        }

        const COUNT: usize = Subsys::ALL.len();
        /// The names, and Ceph's names.
        const NAMES: [(&str, &str); COUNT] = [$(($name, $alias)),*];
        /// The configured levels, log in the high byte.
        static CONFIGURED: [AtomicU16; COUNT] = [$(AtomicU16::new($log << 8 | $gather)),*];
        /// The levels where nothing is configured.
        const DEFAULTS: [Levels; COUNT] = [$(Levels { log: $log, gather: $gather }),*];
    };
}

// The levels are the defaults of Ceph 16.
subsystems! {
    /// Entries of no other subsystem.
    NONE, "none", "none", 0 / 5;
    /// The messenger; Ceph's `ms`.
    MSGR, "msgr", "ms", 0 / 0;
    /// The monitor.
    MON, "mon", "paxos", 1 / 5;
    /// The client of a monitor.
    MONC, "monc", "monc", 0 / 10;
    /// The OSD.
    OSD, "osd", "osd", 1 / 5;
    /// Authentication.
    AUTH, "auth", "auth", 1 / 5;
    /// The object store.
    STORE, "store", "bluestore", 1 / 5;
    /// Client programs.
    CLIENT, "client", "client", 0 / 5;
    /// The operations of clients.
    OBJECTER, "objecter", "objecter", 0 / 1;
    /// The admin socket.
    ASOK, "asok", "asok", 1 / 5;
}

/// The highest recorded level by subsystem: the only value that a caller reads if its level is off. In a
/// cache line of its own, which is written only when a level is set or the log starts or ends.
#[repr(align(128))]
struct Recorded([AtomicI8; COUNT]);

static RECORDED: Recorded = Recorded([const { AtomicI8::new(OFF) }; COUNT]);
/// Whether there is a log thread.
static RECORDING: AtomicBool = AtomicBool::new(false);

impl Subsys {
    /// Whether entries of a level are recorded now.
    #[inline(always)]
    pub fn records(self, level: i8) -> bool {
        level <= RECORDED.0[self.0 as usize].load(Relaxed)
    }

    /// The subsystem's name.
    pub fn name(self) -> &'static str {
        NAMES[self.0 as usize].0
    }

    /// Its levels where nothing is configured.
    pub fn default_levels(self) -> Levels {
        DEFAULTS[self.0 as usize]
    }

    /// The names of its option: `debug_` and Ceph's name, then ours, which wins if both are set.
    pub fn options(self) -> impl Iterator<Item = String> {
        let (ours, cephs) = NAMES[self.0 as usize];
        let names = [(cephs != ours).then_some(cephs), Some(ours)];
        names.into_iter().flatten().map(|name| format!("debug_{name}"))
    }

    /// Returns the subsystem with this name, its own or Ceph's.
    pub fn named(name: &str) -> Option<Self> {
        let index = NAMES.iter().position(|(ours, cephs)| *ours == name || *cephs == name)?;
        Some(Self::ALL[index])
    }

    pub(crate) fn index(self) -> u8 {
        self.0
    }

    pub(crate) fn from_index(index: u8) -> Self {
        Self::ALL.get(index as usize).copied().unwrap_or(Self::NONE)
    }
}

impl fmt::Debug for Subsys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Levels {
    /// Parses `10` (both levels) or `1/10`, as Ceph writes them.
    pub fn parse(text: &str) -> Option<Self> {
        let level = |text: &str| text.trim().parse::<u8>().ok().filter(|level| *level <= LEVEL_MAX);
        match text.split_once('/') {
            Some((log, gather)) => Some(Self { log: level(log)?, gather: level(gather)? }),
            None => level(text).map(|level| Self { log: level, gather: level }),
        }
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.log, self.gather)
    }
}

/// Returns a subsystem's levels.
pub fn levels(subsys: Subsys) -> Levels {
    let [log, gather] = CONFIGURED[subsys.0 as usize].load(SeqCst).to_be_bytes();
    Levels { log, gather }
}

/// Sets a subsystem's levels.
pub fn set_levels(subsys: Subsys, levels: Levels) {
    let packed = u16::from_be_bytes([levels.log.min(LEVEL_MAX), levels.gather.min(LEVEL_MAX)]);
    CONFIGURED[subsys.0 as usize].store(packed, SeqCst);
    apply(subsys);
}

/// Sets an option with the names and values of the configuration and of `config set`: `debug_msgr` (also
/// `debug msgr`, `debug-msgr`), `10/20`.
pub fn set_option(option: &str, value: &str) -> Result<(), OptionError> {
    let name = option.replace([' ', '-'], "_");
    let subsys = name.strip_prefix("debug_").and_then(Subsys::named);
    let subsys = subsys.ok_or_else(|| OptionError::Unknown(option.to_owned()))?;
    let wrong = || OptionError::Value { option: option.to_owned(), value: value.to_owned() };
    set_levels(subsys, Levels::parse(value).ok_or_else(wrong)?);
    Ok(())
}

/// Sets whether there is a log thread. Uses only atomics: it is also called in the child of a fork.
pub(crate) fn set_recording(on: bool) {
    RECORDING.store(on, SeqCst);
    Subsys::ALL.iter().for_each(|subsys| apply(*subsys));
}

/// Updates the recorded level, which callers read, from the configured one. Two threads may do so at
/// once: each checks again after its store, so the last store matches the last change.
fn apply(subsys: Subsys) {
    let wanted = || {
        let Levels { log, gather } = levels(subsys);
        if RECORDING.load(SeqCst) { log.max(gather) as i8 } else { OFF }
    };
    loop {
        let level = wanted();
        RECORDED.0[subsys.0 as usize].store(level, SeqCst);
        if wanted() == level {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_ceph_writes_them() {
        assert_eq!(Levels::parse("10"), Some(Levels { log: 10, gather: 10 }));
        assert_eq!(Levels::parse(" 1 / 20 "), Some(Levels { log: 1, gather: 20 }));
        assert_eq!(Levels::parse("0/5").map(|levels| levels.to_string()).as_deref(), Some("0/5"));
        for text in ["", "/", "1/", "/1", "-1", "100", "1/2/3", "x"] {
            assert_eq!(Levels::parse(text), None, "{text}");
        }
    }

    #[test]
    fn subsystems_have_names_of_their_own() {
        for subsys in Subsys::ALL {
            assert_eq!(Subsys::named(subsys.name()), Some(*subsys));
            assert_eq!(Subsys::from_index(subsys.index()), *subsys);
        }
        assert_eq!(Subsys::named("ms"), Some(Subsys::MSGR));
        assert_eq!(Subsys::MSGR.options().collect::<Vec<_>>(), ["debug_ms", "debug_msgr"]);
        assert_eq!(Subsys::OSD.options().collect::<Vec<_>>(), ["debug_osd"]);
        assert_eq!(Subsys::named("mgr"), None);
    }

    #[test]
    fn options_are_set_by_name_and_refused_with_a_reason() {
        assert_eq!(set_option("debug asok", "3/4"), Ok(()));
        assert_eq!(levels(Subsys::ASOK), Levels { log: 3, gather: 4 });
        assert!(!Subsys::ASOK.records(-1), "nothing is recorded without a log thread");
        assert_eq!(set_option("debug_x", "1").unwrap_err().to_string(), "no such option: debug_x");
        let error = set_option("debug_asok", "1000").unwrap_err();
        assert!(error.to_string().starts_with("option debug_asok = '1000': a level"), "{error}");
        assert_eq!(levels(Subsys::ASOK), Levels { log: 3, gather: 4 });
    }
}
