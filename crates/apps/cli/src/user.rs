//! Switches to the user and group that `setuser` and `setgroup` name, as stock programs do.

use loligo_conf::Conf;
use nix::unistd::{Gid, Group, Uid, User, setgid, setgroups, setuid};

use crate::failure::{Context, Failure};

/// Switches to the configured user and group. Without root privileges it only prints a warning.
pub(crate) fn become_configured(conf: &Conf) -> Result<(), Failure> {
    let set = |option: &str| conf.text(option).filter(|name| !name.is_empty());
    let (user, group) = (set("setuser"), set("setgroup"));
    if user.is_none() && group.is_none() {
        return Ok(());
    }
    if !Uid::effective().is_root() {
        let named: Vec<_> = [("setuser", &user), ("setgroup", &group)]
            .into_iter()
            .filter_map(|(option, name)| name.as_ref().map(|name| format!("--{option} {name}")))
            .collect();
        eprintln!("loligo: {} is without effect: only root can become another user", named.join(" "));
        return Ok(());
    }
    let user = user.map(|name| user_of(&name)).transpose()?;
    let group = match group {
        Some(name) => Some(group_of(&name)?),
        None => user.as_ref().and_then(|user| user.group),
    };
    // Otherwise the process would keep root's groups. The groups must be changed before the user.
    let failed = |what: &'static str| move || what.to_owned();
    setgroups(group.as_slice()).context(failed("give up the groups of root"))?;
    group.map_or(Ok(()), setgid).context(failed("--setgroup"))?;
    user.map_or(Ok(()), |user| setuid(user.id)).context(failed("--setuser"))
}

struct Wanted {
    id: Uid,
    /// The user's group, if the system knows the user.
    group: Option<Gid>,
}

/// Finds a user by name or number. A number need not be known to the system.
fn user_of(name: &str) -> Result<Wanted, Failure> {
    let what = || format!("--setuser {name}");
    if let Some(id) = name.parse().ok().filter(|id| *id != 0) {
        return Ok(Wanted { id: Uid::from_raw(id), group: None });
    }
    let user = User::from_name(name).context(what)?;
    let user = user.ok_or_else(|| Failure::new(what(), "this machine has no such user"))?;
    Ok(Wanted { id: user.uid, group: Some(user.gid) })
}

fn group_of(name: &str) -> Result<Gid, Failure> {
    let what = || format!("--setgroup {name}");
    if let Some(id) = name.parse().ok().filter(|id| *id != 0) {
        return Ok(Gid::from_raw(id));
    }
    let group = Group::from_name(name).context(what)?;
    group.map(|group| group.gid).ok_or_else(|| Failure::new(what(), "this machine has no such group"))
}
