//! Arguments that several families of commands share.

use loligo_maps::OsdMap;
use loligo_wire::OsdId;

use super::{Call, Failure};

/// An OSD named as `0` or `osd.0`.
pub(super) fn osd_arg(call: &Call<'_>, arg: &str) -> Result<OsdId, Failure> {
    if let Some(number) = call.args.int(arg) {
        return i32::try_from(number)
            .map(OsdId)
            .map_err(|_| Failure::invalid(format!("bad osd number {number}")));
    }
    let text = call.args.required(arg);
    let number = text.strip_prefix("osd.").unwrap_or(text).parse();
    number.map(OsdId).map_err(|_| Failure::invalid(format!("invalid osd id '{text}'")))
}

/// The map of the epoch that a command names, or else the current one.
pub(super) fn map_of_epoch(call: &Call<'_>) -> Result<OsdMap, Failure> {
    let Some(epoch) = call.args.int("epoch") else { return Ok(call.state.osdmap().clone()) };
    let missing = || Failure::missing(format!("there is no map for epoch {epoch}"));
    let epoch = u32::try_from(epoch).map_err(|_| missing())?;
    let kept = call.state.maps().epoch(loligo_wire::Epoch(epoch)).ok_or_else(missing)?;
    OsdMap::decode(&kept.full).map_err(|_| missing())
}
