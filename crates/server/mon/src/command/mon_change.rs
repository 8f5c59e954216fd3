//! `mon add | rm | scrub | set-rank | …`: changes of the set of monitors. There is a single monitor, and
//! it cannot be changed.

use super::{Call, Errno, Failure, Outcome, Reply};
use crate::state::MON_ID;
use crate::view;

/// Refuses other monitors. A second monitor could not join this one, and the quorum would be lost, as in
/// a stock cluster whose second monitor never starts.
pub(super) fn add(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("name");
    if name != MON_ID {
        let status = format!(
            "mon.{name} cannot be added: this cluster has one monitor, mon.{MON_ID}, and takes no other"
        );
        return Err(Failure::new(Errno::EOPNOTSUPP, status));
    }
    let info = call.state.monmap().mons.get(MON_ID.as_bytes());
    let addrs = info.map(|info| view::with_nonces(&info.public_addrs)).unwrap_or_default();
    Err(Failure::new(Errno::EEXIST, format!("mon.{name} already exists at address {addrs}")))
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("name");
    if name == MON_ID {
        return Err(Failure::invalid(format!("error: refusing removal of last monitor {name}")));
    }
    Ok(Reply::status(format!("mon.{name} does not exist or has already been removed")))
}

/// Compares the monitors' stores. A single monitor has nothing to compare.
pub(super) fn scrub(_: &mut Call<'_>) -> Outcome {
    Ok(Reply::default())
}

/// The obsolete name of the command.
pub(super) fn old_scrub(_: &mut Call<'_>) -> Outcome {
    let status = "command is obsolete; please check usage and/or man page";
    Err(Failure::new(Errno::EOPNOTSUPP, status))
}

/// The msgr2 protocol is always enabled.
pub(super) fn enable_msgr2(_: &mut Call<'_>) -> Outcome {
    Ok(Reply::default())
}

/// The single monitor always has the first rank.
pub(super) fn set_rank(call: &mut Call<'_>) -> Outcome {
    match call.args.required("name") {
        MON_ID => Ok(Reply::default()),
        name => Err(Failure::missing(format!("mon.{name} does not exist in monmap"))),
    }
}

/// A single monitor wins every election, whatever the strategy.
pub(super) fn disallowed_leader(_: &mut Call<'_>) -> Outcome {
    Err(Failure::invalid("You cannot disallow monitors in your current election mode"))
}
