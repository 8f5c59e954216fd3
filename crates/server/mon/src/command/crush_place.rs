//! `osd crush add | set | create-or-move | move | link | unlink | rm | swap-bucket | reweight-all |
//! reweight-subtree`: locations and weights of devices and buckets. The texts and errors are those of a
//! monitor of 16.2.15.

use loligo_maps::OsdMap;
use loligo_maps::crush::{CrushMap, Location};
use loligo_wire::OsdId;

use super::crush_edit::{change, replace};
use super::osd_args::osd_arg;
use super::{Call, Errno, Failure, Outcome, Reply};

/// The location in a command's `TYPE=NAME` words. As in a stock monitor, one invalid word makes the
/// location empty.
pub(super) fn location(call: &Call<'_>) -> Location {
    let pair = |word: &str| word.split_once('=').map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    call.args.texts("args").into_iter().map(pair).collect::<Option<Location>>().unwrap_or_default()
}

/// Formats a location: `{host=h,root=default}`.
pub(super) fn shown(at: &Location) -> String {
    let pairs: Vec<String> = at.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    format!("{{{}}}", pairs.join(","))
}

/// The item, its name and its location: the common arguments of these commands.
struct Placing {
    item: i32,
    name: String,
    at: Location,
}

impl Placing {
    /// Parses a command that names an OSD by its number.
    fn of_osd(call: &Call<'_>, missing: &str) -> Result<Self, Failure> {
        let osd = osd_arg(call, "id")?;
        if !call.state.osdmap().exists(osd) {
            return Err(Failure::missing(format!("osd.{osd} does not exist{missing}")));
        }
        Ok(Self { item: osd.0, name: format!("osd.{osd}"), at: location(call) })
    }

    /// Parses a command that names an item.
    fn of_item(call: &Call<'_>) -> Result<Self, Failure> {
        let name = call.args.required("name").to_owned();
        let missing = || Failure::missing(format!("item {name} does not exist"));
        let item = call.state.osdmap().crush.item_by_name(&name).ok_or_else(missing)?;
        Ok(Self { item, name, at: location(call) })
    }

    fn weight_in(&self, crush: &CrushMap) -> Option<u32> {
        crush.weight_at(self.item, &self.at)
    }

    /// The error if the item cannot be put at the location.
    fn refusal(&self, crush: &CrushMap) -> Failure {
        let nearest = nearest(crush, &self.at);
        let below = nearest.is_some_and(|at| at == self.item || crush.contains(self.item, at));
        match below {
            true => Failure::new(Errno::ELOOP, "(40) Too many levels of symbolic links"),
            false => Failure::invalid("(22) Invalid argument"),
        }
    }

    /// Puts the item at the location with a weight. If `moved`, removes it from its old locations first.
    fn put(&self, call: &mut Call<'_>, moved: bool, weight: u32) -> Result<(), Failure> {
        let refusal = self.refusal(&call.state.osdmap().crush);
        change(call, |crush| {
            if moved {
                crush.unlink(self.item, None)?;
            }
            if self.item >= 0 {
                crush.add_device(self.item, &self.name)?;
            }
            crush.insert_at(self.item, weight, &self.at)
        })
        .map_err(|_| refusal)
    }

    /// The weight of the item at its current location.
    fn weight_now(&self, crush: &CrushMap) -> Option<u32> {
        let holder = crush.bucket(*crush.holders(self.item).first()?)?;
        holder.item_weight(holder.items.iter().position(|item| *item == self.item)?)
    }
}

/// `osd crush set`, and `osd crush add`, which acts as `set` for an item that is already at the
/// location.
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let placing = Placing::of_osd(call, ". Create it before updating the crush map")?;
    let weight = call.args.float("weight").unwrap_or_default();
    let (fixed, there) = (OsdMap::fixed_weight(weight), placing.weight_in(&call.state.osdmap().crush));
    let what = format!(
        "item id {} name '{}' weight {weight} at location {}",
        placing.item,
        placing.name,
        shown(&placing.at)
    );
    let adds = call.args.prefix() == Ok("osd crush add") && there.is_none();
    match there {
        Some(old) if old == fixed => return Ok(Reply::status(format!("set {what}: no change"))),
        Some(_) => {
            let nearest = nearest(&call.state.osdmap().crush, &placing.at);
            change(call, |crush| {
                nearest.map_or(Ok(()), |at| crush.set_item_weight(placing.item, fixed, at))
            })?;
        }
        None => placing.put(call, !adds, fixed)?,
    }
    Ok(Reply::status(format!("{} {what} to crush map", if adds { "add" } else { "set" })))
}

/// The innermost bucket of a location that exists.
fn nearest(crush: &CrushMap, at: &Location) -> Option<i32> {
    let names = crush.type_names.values().filter_map(|kind| at.get(&kind.to_string()));
    names.filter_map(|name| crush.item_by_name(name)).next()
}

pub(super) fn create_or_move(call: &mut Call<'_>) -> Outcome {
    let placing = Placing::of_osd(call, ".  create it before updating the crush map")?;
    let weight = call.args.float("weight").unwrap_or_default();
    let what = format!("item name '{}' weight {weight} at location {}", placing.name, shown(&placing.at));
    let crush = &call.state.osdmap().crush;
    if placing.weight_in(crush).is_some() {
        return Ok(Reply::status(format!("create-or-move updated {what} to crush map")));
    }
    let fixed = placing.weight_now(crush).unwrap_or(OsdMap::fixed_weight(weight));
    placing.put(call, true, fixed)?;
    Ok(Reply::status(format!("create-or-move updating {what} to crush map")))
}

/// `osd crush move`, and `osd crush link`, which keeps the old locations of the bucket as well.
pub(super) fn move_item(call: &mut Call<'_>) -> Outcome {
    let placing = Placing::of_item(call)?;
    let links = call.args.prefix() == Ok("osd crush link");
    let what = format!("item id {} name '{}' to location {}", placing.item, placing.name, shown(&placing.at));
    let crush = &call.state.osdmap().crush;
    if placing.weight_in(crush).is_some() {
        return Ok(Reply::status(format!("no need to move {what} in crush map")));
    }
    let weight = placing.weight_now(crush).unwrap_or_default();
    let put = if links && placing.item >= 0 {
        Err(Failure::invalid(String::new()))
    } else {
        placing.put(call, !links, weight)
    };
    put.map_err(|failure| match links {
        true => Failure { status: format!("cannot link {what}"), ..failure },
        false => failure,
    })?;
    Ok(Reply::status(format!("{} {what} in crush map", if links { "linked" } else { "moved" })))
}

/// `osd crush rm | remove | unlink`: removes an item from all buckets, or only at and below one of them.
pub(super) fn remove(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("name").to_owned();
    let only_unlinks = call.args.prefix() == Ok("osd crush unlink");
    let crush = &call.state.osdmap().crush;
    let Some(item) = crush.item_by_name(&name) else {
        return Ok(Reply::status(format!("device '{name}' does not appear in the crush map")));
    };
    let below = match call.args.text("ancestor") {
        None => None,
        Some(ancestor) => {
            let status = || format!("ancestor item '{ancestor}' does not appear in the crush map");
            Some(crush.item_by_name(ancestor).ok_or_else(|| Failure::missing(status()))?)
        }
    };
    let nowhere = Reply::status(format!("item {item} does not appear in that position"));
    let holders = crush.holders(item);
    let there = match below {
        Some(top) => holders.iter().any(|holder| *holder == top || crush.contains(top, *holder)),
        None => true,
    };
    if !there {
        return Ok(nowhere);
    }
    let is_full = crush.bucket(item).is_some_and(|bucket| !bucket.items.is_empty());
    if is_full && !only_unlinks {
        return Err(Failure::new(Errno::ENOTEMPTY, "(39) Directory not empty"));
    }
    if crush.is_taken_by_rule(item) && !only_unlinks {
        return Err(Failure::new(Errno::EBUSY, "(16) Device or resource busy"));
    }
    change(call, |crush| {
        crush.unlink(item, below)?;
        if !only_unlinks && crush.holders(item).is_empty() {
            crush.forget_item(item);
        }
        Ok(())
    })?;
    Ok(Reply::status(format!("removed item id {item} name '{name}' from crush map")))
}

pub(super) fn swap(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.args.required("source").to_owned(), call.args.required("dest").to_owned());
    let crush = &call.state.osdmap().crush;
    let find = |which: &str, name: &str| {
        let missing = || Failure::missing(format!("{which} item {name} does not exist"));
        crush.item_by_name(name).ok_or_else(missing)
    };
    let (source, dest) = (find("source", &from)?, find("dest", &to)?);
    if source >= 0 || dest >= 0 {
        return Err(Failure::invalid("only buckets can be swapped"));
    }
    if !crush.holders(source).is_empty() && !call.args.flag("yes_i_really_mean_it") {
        let status = format!(
            "source item {from} is not an orphan bucket; pass --yes-i-really-mean-it to proceed anyway"
        );
        return Err(Failure::new(Errno::EPERM, status));
    }
    if crush.contains(dest, source) {
        return Err(Failure::invalid(format!("dest item {to} is a parent of source item {from}")));
    }
    if crush.contains(source, dest) {
        return Err(Failure::invalid(format!("source item {from} is a parent of dest item {to}")));
    }
    if source == dest {
        return Err(Failure::invalid(format!("source item {from} and dest item {to} are the same")));
    }
    change(call, |crush| crush.swap_buckets(source, dest))?;
    Ok(Reply::status(format!("swapped bucket of {from} to {to}")))
}

pub(super) fn reweight_all(call: &mut Call<'_>) -> Outcome {
    change(call, CrushMap::reweight_all)?;
    Ok(Reply::status("reweighted crush hierarchy"))
}

pub(super) fn reweight_subtree(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("name").to_owned();
    let missing = || Failure::missing(format!("device '{name}' does not appear in the crush map"));
    let bucket = call.state.osdmap().crush.item_by_name(&name).ok_or_else(missing)?;
    if bucket >= 0 {
        return Err(Failure::invalid(format!("device '{name}' is not a subtree in the crush map")));
    }
    let weight = call.args.float("weight").unwrap_or_default();
    change(call, |crush| crush.reweight_below(bucket, OsdMap::fixed_weight(weight)))?;
    let status = format!("reweighted subtree id {bucket} name '{name}' to {weight} in crush map");
    Ok(Reply::status(status))
}

pub(super) fn straw_to_straw2(call: &mut Call<'_>) -> Outcome {
    let mut crush = CrushMap::clone(&call.state.osdmap().crush);
    if crush.straw_to_straw2() {
        replace(call, &crush)?;
    }
    Ok(Reply::default())
}

/// `osd crush set-tunable`: changes the computation of straw lengths, which only matters for maps of old
/// clusters.
pub(super) fn set_tunable(call: &mut Call<'_>) -> Outcome {
    let (name, value) = (call.args.required("tunable"), call.args.int("value").unwrap_or_default());
    let version = u8::try_from(value).ok().filter(|version| *version <= 1);
    let version = version.ok_or_else(|| Failure::invalid(format!("value must be 0 or 1; got {value}")))?;
    let status = format!("adjusted tunable {name} to {value}");
    change(call, |crush| {
        crush.tunables.straw_calc_version = version;
        Ok(())
    })?;
    Ok(Reply::status(status))
}

/// The OSDs that the words name, in their order. A word that names none gives an error: whether it is
/// not a number, and the text for it.
pub(super) fn named_osds(call: &Call<'_>) -> Vec<Result<OsdId, (bool, String)>> {
    let map = call.state.osdmap();
    let words = call.args.texts("ids");
    if words.iter().any(|word| matches!(*word, "all" | "any" | "*")) {
        return map.osd_ids().map(Ok).collect();
    }
    let named = |word: &str| {
        let number =
            word.strip_prefix("osd.").unwrap_or(word).parse().ok().filter(|number: &i32| *number >= 0);
        let bad = || {
            let said = format!(
                "Expected option value to be integer, got '{word}', unable to parse osd id:\"{word}\". "
            );
            (true, said)
        };
        let osd = OsdId(number.ok_or_else(bad)?);
        match map.exists(osd) {
            true => Ok(osd),
            false => Err((false, format!("osd.{osd} does not exist. "))),
        }
    };
    words.into_iter().map(named).collect()
}
