//! `mon add | rm | scrub | set-rank | …`: what would change who the monitors are. There is one, and it stays.

use super::{Call, Errno, Failure, Outcome, Reply};
use crate::state::MON_ID;
use crate::view;

/// A monitor beside this one could not reach it: it would take the quorum away, as in a stock cluster whose
/// second monitor never comes.
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

/// Compares what the monitors keep: one has nothing to compare with.
pub(super) fn scrub(_: &mut Call<'_>) -> Outcome {
    Ok(Reply::default())
}

/// The older name.
pub(super) fn old_scrub(_: &mut Call<'_>) -> Outcome {
    let status = "command is obsolete; please check usage and/or man page";
    Err(Failure::new(Errno::EOPNOTSUPP, status))
}

/// It is spoken in any case.
pub(super) fn enable_msgr2(_: &mut Call<'_>) -> Outcome {
    Ok(Reply::default())
}

/// The first of one.
pub(super) fn set_rank(call: &mut Call<'_>) -> Outcome {
    match call.args.required("name") {
        MON_ID => Ok(Reply::default()),
        name => Err(Failure::missing(format!("mon.{name} does not exist in monmap"))),
    }
}

/// One monitor wins every election, by whatever strategy.
pub(super) fn disallowed_leader(_: &mut Call<'_>) -> Outcome {
    Err(Failure::invalid("You cannot disallow monitors in your current election mode"))
}
