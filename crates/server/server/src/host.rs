//! Properties of the machine: its name, and random numbers.

use std::{fs, io};

use loligo_wire::Uuid;

/// A random UUID (version 4).
pub(crate) fn random_uuid() -> io::Result<Uuid> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Uuid(bytes))
}

/// A random nonce, which distinguishes this life of a daemon from others at the same address. Never 0,
/// which stands for any.
pub(crate) fn nonce() -> io::Result<u32> {
    getrandom::u32().map(|n| n.max(1)).map_err(io::Error::other)
}

/// The machine's name up to the first dot, as CRUSH names hosts.
pub(crate) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let short = name.trim().split('.').next().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !short.is_empty() && short != "default" && short.chars().all(fits) {
        true => short.to_owned(),
        false => "localhost".to_owned(),
    }
}
