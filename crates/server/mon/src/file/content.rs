//! The content of a state file.
//!
//! ```text
//! {
//!   "saved": "12 1f2e3d4c 65536",
//!   …
//! }
//! {"saved":"13 5a6b7c8d","osdmap":["…"]}
//!                                                          …
//! ```
//! The state comes first, as JSON. Its first line holds the number of saves, a checksum of that number
//! and of the rest, and the length of the log in bytes. The log has one line for each save since then:
//! its number, its checksum and the change. Spaces fill the rest of the log, where the next lines go.
//! The file has its full length from the start, so a shorter file was truncated.

use std::io;

use loligo_wire::crc::crc32c_of;
use zeroize::Zeroizing;

use crate::state::State;
use crate::state::error::StateError;
use crate::state::persist::FORM_PAIR;

/// The start of a file's first line.
const BEGIN: &str = "{\n  \"saved\": \"";
/// The start of a line of the log.
const LINE_BEGIN: &str = "{\"saved\":\"";
/// The text after the number and the checksum in a line of the log.
const LINE_CHECKED: &str = "\",";
/// Minimum size of a log in bytes; a larger state gets a log of its own size.
const LOG_BYTES_MIN: usize = 64 << 10;

/// A parsed file.
pub(super) struct Parsed {
    /// The number of saves; `None` if the file was written by a release that kept a single file.
    pub(super) saves: Option<u64>,
    /// Incomplete data follows the log's last whole change: that write was interrupted, or it is
    /// damaged.
    pub(super) is_torn: bool,
    /// The offset at which the next change is written.
    pub(super) log_at: usize,
    pub(super) state: State,
}

/// The content of a new file, and the offset at which its log begins.
pub(super) struct Whole {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) log_at: u64,
}

/// Builds a file from a state ([`State::to_json`]) and an empty log.
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

/// Clears the log from `log_at` on.
pub(super) fn clear(bytes: &mut [u8], log_at: usize) {
    let Some((last, blank)) = bytes.get_mut(log_at..).and_then(<[u8]>::split_last_mut) else { return };
    blank.fill(b' ');
    *last = b'\n';
}

/// The maximum number of bytes that a change takes in the log.
pub(super) fn line_max(change: &[u8]) -> u64 {
    (LINE_BEGIN.len()
        + u64::MAX.ilog10() as usize
        + 1
        + " 12345678".len()
        + LINE_CHECKED.len()
        + change.len()
        + 1) as u64
}

/// Formats a change as a line of the log.
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
        // This format requires the first line, so the file was truncated or changed.
        return match form >= FORM_PAIR {
            true => Err(StateError::Check),
            false => Ok(Parsed { saves: None, is_torn: false, log_at: content.len(), state }),
        };
    };
    let end = line.iter().position(|byte| *byte == b'\n').ok_or(StateError::Check)?;
    let said =
        std::str::from_utf8(&line[..end]).ok().and_then(|line| line.strip_suffix("\",")?.split_once(' '));
    let (saves, said) = said.ok_or(StateError::Check)?;
    // Files written before the log existed have no log length.
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
    /// The lines, in order.
    changes: Vec<&'a [u8]>,
    /// Length of all lines in bytes.
    len: usize,
    is_torn: bool,
}

/// Reads the changes since a save, up to the first incomplete one.
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
    // Only the last change can have been interrupted.
    if rest.split_inclusive(|byte| *byte == b'\n').any(|line| number_of(line).is_some()) {
        return Err(StateError::Change(saves + changes.len() as u64 + 1));
    }
    let is_torn = rest.iter().any(|byte| !byte.is_ascii_whitespace());
    Ok(Log { changes, len, is_torn })
}

/// The number of a line of the log, if the line is complete.
fn number_of(line: &[u8]) -> Option<u64> {
    let line = line.strip_prefix(LINE_BEGIN.as_bytes())?.strip_suffix(b"\n")?;
    let end = line.windows(LINE_CHECKED.len()).position(|some| some == LINE_CHECKED.as_bytes())?;
    let (saves, crc) = std::str::from_utf8(&line[..end]).ok()?.split_once(' ')?;
    let (saves, crc) = (saves.parse().ok()?, u32::from_str_radix(crc, 16).ok()?);
    (check(saves, None, &line[end + LINE_CHECKED.len()..]) == crc).then_some(saves)
}
