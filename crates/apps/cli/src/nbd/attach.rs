//! `loligo nbd attach` and `detach`: the kernel's client.

use std::num::NonZeroU32;
use std::path::Path;

use loligo_nbd::Target;
use loligo_nbd::kernel::{self, BlockSize, Device};
use serde_json::json;

use crate::failure::{Context, Failure};
use crate::format::FormatName;

/// The name for any free device.
const ANY: &str = "auto";

pub(super) fn attach(
    device: &str,
    export: &str,
    unix: Option<&Path>,
    connections: NonZeroU32,
    block_size: BlockSize,
    format: FormatName,
) -> Result<(), Failure> {
    let device = if device == ANY { None } else { Some(named(device)?) };
    let target = match unix {
        Some(path) => Target::unix(path, export),
        None => Target::parse(export).context(|| "nbd attach".to_owned())?,
    };
    let attached = kernel::attach(&target, device, connections, block_size)
        .context(|| format!("nbd attach {target}"))?;
    match format {
        FormatName::Json => sayln!(
            "{}",
            json!({
                "device": attached.device.to_string(),
                "size": attached.offer.size,
                "read_only": attached.offer.is_read_only(),
                "block_size": block_size.bytes(),
                "connections": attached.connections,
            })
        ),
        _ => sayln!("{}", attached.device),
    }
    Ok(())
}

pub(super) fn detach(device: &str, forced: bool) -> Result<(), Failure> {
    let device = named(device)?;
    kernel::detach(device, forced).context(|| format!("nbd detach {device}"))
}

fn named(device: &str) -> Result<Device, Failure> {
    Device::parse(device).ok_or_else(|| Failure::new(device, "is not /dev/nbdN"))
}
