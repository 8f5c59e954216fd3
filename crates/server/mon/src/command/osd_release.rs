//! `osd set-require-min-compat-client | require-osd-release`: the oldest releases that may connect.

use super::{Call, Errno, Failure, Outcome, Reply};
use crate::view;

/// The oldest release whose clients understand every map made here.
const JEWEL: u8 = 10;
/// The oldest release whose OSDs could be in the same cluster as ours.
const NAUTILUS: u8 = 14;
/// The release that this monitor implements.
const PACIFIC: u8 = 16;
/// The releases that `require-osd-release` accepts.
pub(super) const OSD_RELEASES: [&str; 5] = ["luminous", "mimic", "nautilus", "octopus", "pacific"];

fn number(name: &str) -> Option<u8> {
    let at = view::RELEASES.iter().position(|release| *release == name)?;
    u8::try_from(at + 1).ok().filter(|number| *number <= PACIFIC)
}

pub(super) fn min_compat_client(call: &mut Call<'_>) -> Outcome {
    let version = call.args.required("version");
    let unknown = || Failure::invalid(format!("version {version} is not recognized"));
    let wanted = number(version).ok_or_else(unknown)?;
    if wanted < JEWEL {
        let status = format!(
            "osdmap current utilizes features that require jewel; cannot set require_min_compat_client below that to \
             {version}"
        );
        return Err(Failure::new(Errno::EPERM, status));
    }
    call.state.change_osdmap(call.now, |_, inc| inc.new_require_min_compat_client = Some(wanted))?;
    Ok(Reply::status(format!("set require_min_compat_client to {version}")))
}

pub(super) fn osd_release(call: &mut Call<'_>) -> Outcome {
    let release = call.args.required("release");
    let unknown = || Failure::invalid(format!("unrecognized release {release}"));
    let wanted = number(release).ok_or_else(unknown)?;
    let now = call.state.osdmap().require_osd_release;
    if wanted == now {
        return Ok(Reply::default());
    }
    if wanted < NAUTILUS {
        return Err(Failure::new(Errno::EPERM, "not supported for this release yet"));
    }
    if wanted < now {
        let status = "require_osd_release cannot be lowered once it has been set";
        return Err(Failure::new(Errno::EPERM, status));
    }
    call.state.change_osdmap(call.now, |_, inc| inc.new_require_osd_release = Some(wanted))?;
    Ok(Reply::default())
}
