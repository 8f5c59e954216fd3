//! What is in one of the files.
//!
//! ```text
//! {
//!   "saved": "12 1f2e3d4c 65536",
//!   …
//! }
//! {"saved":"13 5a6b7c8d","osdmap":["…"]}
//!                                                          …
//! ```
//! First the state, as JSON. Its first line says how often the state had been saved, the checksum of that and
//! of what follows, and how many bytes the log has. The log is a line for each save since, which says its
//! number, its checksum and what has changed; spaces follow, where the next ones go. The file has its full
//! length from the start: one that is shorter was cut.

use std::io;

use loligo_wire::crc::crc32c_of;
use zeroize::Zeroizing;

use crate::state::State;
use crate::state::error::StateError;
use crate::state::persist::FORM_PAIR;

/// What the first line of a file begins with.
const BEGIN: &str = "{\n  \"saved\": \"";
/// What a line of the log begins with.
const LINE_BEGIN: &str = "{\"saved\":\"";
/// What stands behind number and checksum there.
const LINE_CHECKED: &str = "\",";
/// Bytes of a log at least; else it has as many as the state.
const LOG_BYTES_MIN: usize = 64 << 10;

/// A file that was read.
pub(super) struct Parsed {
    /// How often the state was saved; nothing says so if the file is of a program that had one file.
    pub(super) saves: Option<u64>,
    /// Behind the log is something that is no whole change: it was being written, or it is damaged.
    pub(super) is_torn: bool,
    /// Where the next change would go.
    pub(super) log_at: usize,
    pub(super) state: State,
}

/// All that is to be in a file, and where its log begins.
pub(super) struct Whole {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) log_at: u64,
}

/// A file with a state, [`State::to_json`], and an empty log.
pub(super) fn whole(content: &[u8], saves: u64) -> io::Result<Whole> {
    let rest = content.strip_prefix(b"{\n").ok_or(io::ErrorKind::InvalidInput)?;
    let log = content.len().max(LOG_BYTES_MIN);
    let mut bytes = Zeroizing::new(Vec::with_capacity(content.len() + log + 64));
    let check = check(saves, Some(log), rest);
    bytes.extend_from_slice(format!("{BEGIN}{saves} {check:08x} {log}\",\n").as_bytes());
    bytes.extend_from_slice(rest);
    let log_at = bytes.len();
    bytes.resize(log_at + log, 0);
    clear(&mut bytes, log_at);
    Ok(Whole { bytes, log_at: log_at as u64 })
}

/// Leaves nothing of a log from `log_at` on.
pub(super) fn clear(bytes: &mut [u8], log_at: usize) {
    let Some((last, blank)) = bytes.get_mut(log_at..).and_then(<[u8]>::split_last_mut) else { return };
    blank.fill(b' ');
    *last = b'\n';
}

/// What a change takes of the log, at most.
pub(super) fn line_max(change: &[u8]) -> u64 {
    (LINE_BEGIN.len()
        + u64::MAX.ilog10() as usize
        + 1
        + " 12345678".len()
        + LINE_CHECKED.len()
        + change.len()
        + 1) as u64
}

/// A change as a line of the log.
pub(super) fn line(change: &[u8], saves: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let rest = change.strip_prefix(b"{").filter(|rest| !rest.contains(&b'\n'));
    let rest = rest.ok_or(io::ErrorKind::InvalidInput)?;
    let mut line = Zeroizing::new(Vec::with_capacity(change.len() + 64));
    let check = check(saves, None, rest);
    line.extend_from_slice(format!("{LINE_BEGIN}{saves} {check:08x}{LINE_CHECKED}").as_bytes());
    line.extend_from_slice(rest);
    line.push(b'\n');
    Ok(line)
}

fn check(saves: u64, log: Option<usize>, rest: &[u8]) -> u32 {
    let log = log.map(|log| (log as u64).to_le_bytes());
    let log: &[u8] = log.as_ref().map_or(&[], |log| &log[..]);
    crc32c_of([&saves.to_le_bytes(), log, rest])
}

pub(super) fn parse(content: &[u8]) -> Result<Parsed, StateError> {
    let Some(line) = content.strip_prefix(BEGIN.as_bytes()) else {
        let (form, state) = State::restore(content, &[])?;
        // A file that must have the line and has it not was cut or changed.
        return match form >= FORM_PAIR {
            true => Err(StateError::Check),
            false => Ok(Parsed { saves: None, is_torn: false, log_at: content.len(), state }),
        };
    };
    let end = line.iter().position(|byte| *byte == b'\n').ok_or(StateError::Check)?;
    let said =
        std::str::from_utf8(&line[..end]).ok().and_then(|line| line.strip_suffix("\",")?.split_once(' '));
    let (saves, said) = said.ok_or(StateError::Check)?;
    // Of before there was a log.
    let (crc, log) = match said.split_once(' ') {
        Some((crc, log)) => (crc, Some(log.parse().map_err(|_| StateError::Check)?)),
        None => (said, None),
    };
    let (saves, crc) = (saves.parse::<u64>(), u32::from_str_radix(crc, 16));
    let (Ok(saves), Ok(crc)) = (saves, crc) else { return Err(StateError::Check) };
    let log_start = content.len().checked_sub(log.unwrap_or(0)).ok_or(StateError::Check)?;
    let rest = content.get(BEGIN.len() + end + 1..log_start).ok_or(StateError::Check)?;
    if check(saves, log, rest) != crc {
        return Err(StateError::Check);
    }
    let Log { changes, len, is_torn } = read_log(&content[log_start..], saves)?;
    let (_, state) = State::restore(&content[..log_start], &changes)?;
    Ok(Parsed { saves: Some(saves + changes.len() as u64), is_torn, log_at: log_start + len, state })
}

struct Log<'a> {
    /// Lines, in order.
    changes: Vec<&'a [u8]>,
    /// Their bytes.
    len: usize,
    is_torn: bool,
}

/// Reads the changes since a save, up to one that is not whole.
fn read_log(log: &[u8], saves: u64) -> Result<Log<'_>, StateError> {
    let (mut changes, mut len) = (Vec::new(), 0);
    for (line, number) in log.split_inclusive(|byte| *byte == b'\n').zip(saves + 1..) {
        if number_of(line) != Some(number) {
            break;
        }
        changes.push(line);
        len += line.len();
    }
    let rest = &log[len..];
    // Only the last change can have been cut short.
    if rest.split_inclusive(|byte| *byte == b'\n').any(|line| number_of(line).is_some()) {
        return Err(StateError::Change(saves + changes.len() as u64 + 1));
    }
    let is_torn = rest.iter().any(|byte| !byte.is_ascii_whitespace());
    Ok(Log { changes, len, is_torn })
}

/// The number of a line of a log, if the line is whole.
fn number_of(line: &[u8]) -> Option<u64> {
    let line = line.strip_prefix(LINE_BEGIN.as_bytes())?.strip_suffix(b"\n")?;
    let end = line.windows(LINE_CHECKED.len()).position(|some| some == LINE_CHECKED.as_bytes())?;
    let (saves, crc) = std::str::from_utf8(&line[..end]).ok()?.split_once(' ')?;
    let (saves, crc) = (saves.parse().ok()?, u32::from_str_radix(crc, 16).ok()?);
    (check(saves, None, &line[end + LINE_CHECKED.len()..]) == crc).then_some(saves)
}
