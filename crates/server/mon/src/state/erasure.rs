//! Erasure-code profiles, and the pools that use them.
//!
//! No data is encoded: the store keeps each object once. Profiles are checked and completed like those
//! of a stock monitor, because clients see the results: the pool's size, its stripes, the CRUSH rule.

use std::collections::BTreeMap;

use loligo_conf::table::parse_size;
use loligo_maps::crush::{CrushMap, RuleKind};
use loligo_maps::{Name, OsdMap, PgPool};
use loligo_wire::UTime;

use super::State;
use super::pools::{Created, check_name};
use crate::failure::{Errno, Failure};
use crate::text;

/// A profile as the osdmap keeps it.
pub type Profile = BTreeMap<Name, Name>;

/// The profile of pools that name none.
pub const DEFAULT_PROFILE: &str = "default";
/// Bytes of a shard in a stripe, by default (`osd_pool_erasure_code_stripe_unit`).
const STRIPE_UNIT: u32 = 4096;
/// The maximum number of shards: the largest pool size in the CRUSH maps of releases before 17.
const SHARDS_MAX: u8 = 20;

/// A parsed profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Shards that hold data (`k`).
    pub data: u8,
    /// Shards that hold the code (`m`).
    pub coding: u8,
    /// Bytes of a shard in a stripe.
    stripe_unit: u32,
    root: String,
    failure_domain: String,
    device_class: String,
    /// The profile, completed with the defaults.
    pub profile: Profile,
}

impl Code {
    /// Parses the words of `osd erasure-code-profile set`. They override the default profile, unless
    /// they name another plugin.
    ///
    /// # Errors
    /// EINVAL, ENOENT or, for an unknown plugin, EIO where a stock monitor refuses; EOPNOTSUPP for a
    /// plugin or technique that a stock cluster has and this server does not.
    pub fn of_words(words: &[&str], force: bool) -> Result<Self, Failure> {
        let pairs = words.iter().map(|word| word.split_once('=').unwrap_or((word, "")));
        let said: BTreeMap<&str, &str> = pairs.collect();
        let own_plugin = said.get("plugin").is_some_and(|plugin| *plugin != "jerasure");
        let mut all = BTreeMap::new();
        if !own_plugin {
            all.extend([("k", "2"), ("m", "2"), ("plugin", "jerasure"), ("technique", "reed_sol_van")]);
        }
        all.extend(said);
        let profile = all.into_iter().map(|(key, value)| (Name::from(key), Name::from(value)));
        Self::of(profile.collect(), force)
    }

    /// Parses a profile and completes it. `force` allows stripes that are slow on disks.
    ///
    /// # Errors
    /// As [`Code::of_words`].
    pub fn of(profile: Profile, force: bool) -> Result<Self, Failure> {
        let mut terms = Terms(profile);
        let plugin = terms.text("plugin", "jerasure");
        let alignment = match plugin.as_str() {
            "jerasure" => jerasure(&mut terms)?,
            "isa" => isa(&mut terms)?,
            other => {
                let status = format!(
                    "the plugin '{other}' of erasure codes is not known to this server; it has jerasure and isa"
                );
                let absent = ["lrc", "shec", "clay"].contains(&other);
                return Err(Failure::new(if absent { Errno::EOPNOTSUPP } else { Errno::EIO }, status));
            }
        };
        let (data, coding) = (terms.number("k", 7)?, terms.number("m", 3)?);
        if data < 2 {
            return Err(Failure::invalid(format!("k={data} must be >= 2")));
        }
        if coding < 1 {
            return Err(Failure::invalid(format!("m={coding} must be >= 1")));
        }
        let shards = data.saturating_add(coding);
        let (Ok(data), Ok(coding), true) =
            (u8::try_from(data), u8::try_from(coding), shards <= i64::from(SHARDS_MAX))
        else {
            return Err(Failure::invalid(format!("k+m={shards} must be <= {SHARDS_MAX}")));
        };
        let stripe_unit = terms.stripe_unit(alignment, force)?;
        let root = terms.text("crush-root", "default");
        let failure_domain = terms.text("crush-failure-domain", "host");
        let device_class = terms.text("crush-device-class", "");
        Ok(Self { data, coding, stripe_unit, root, failure_domain, device_class, profile: terms.0 })
    }

    fn shards(&self) -> u8 {
        self.data + self.coding
    }

    /// Bytes of data in a stripe. The length of an append must be a multiple of it.
    pub fn stripe_width(&self) -> u32 {
        u32::from(self.data) * self.stripe_unit
    }

    /// Adds the rule that places the shards, unless a rule of this name exists. Returns the rule's
    /// number.
    ///
    /// # Errors
    /// ENOENT or EINVAL for a root, failure domain or class that the CRUSH map does not have.
    pub fn add_rule(&self, crush: &mut CrushMap, name: &str) -> Result<u8, Failure> {
        if let Some(number) = crush.rule_by_name(name).and_then(|number| u8::try_from(number).ok()) {
            return Ok(number);
        }
        let class = &self.device_class;
        if !class.is_empty() {
            let status = format!(
                "device class '{class}': the rules of this server's coded pools take OSDs of all classes"
            );
            return Err(Failure::invalid(status));
        }
        let root = crush.item_by_name(&self.root);
        let root = root.ok_or_else(|| Failure::missing(format!("root item {} does not exist", self.root)))?;
        let kind = crush.type_by_name(&self.failure_domain);
        let kind = kind.ok_or_else(|| Failure::invalid(format!("unknown type {}", self.failure_domain)))?;
        crush.add_erasure_rule(name, self.shards(), root, kind).map_err(|e| Failure::invalid(e.to_string()))
    }

    /// Checks that there are enough failure domains. A pool whose placement groups lack shards would be
    /// of no use: nothing here ever fills the gaps.
    fn check_fits(&self, map: &OsdMap) -> Result<(), Failure> {
        let domain = &self.failure_domain;
        let there = match map.crush.type_by_name(domain) {
            Some(0) => map.osd_ids().count(),
            Some(kind) => map.crush.buckets.iter().flatten().filter(|b| i32::from(b.kind) == kind).count(),
            None => return Err(Failure::invalid(format!("unknown type {domain}"))),
        };
        let shards = usize::from(self.shards());
        if there >= shards {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "the profile has k+m = {shards} shards, each on a {domain} of its own, and there are {there}: start the \
             server with --osds {shards} or more, or use smaller k and m"
        )))
    }
}

/// A shard's size must be a multiple of this number of bytes.
struct Alignment(u32);

fn jerasure(terms: &mut Terms) -> Result<Alignment, Failure> {
    let technique = terms.text("technique", "reed_sol_van");
    if technique != "reed_sol_van" {
        return Err(match JERASURE.contains(&technique.as_str()) {
            true => Failure::new(
                Errno::EOPNOTSUPP,
                format!(
                    "technique={technique} is not known to this server, which does not code; it has reed_sol_van"
                ),
            ),
            false => no_technique(&technique, &JERASURE.join(", ")),
        });
    }
    let word = terms.number("w", 8)?;
    terms.text("jerasure-per-chunk-alignment", "false");
    match word {
        8 => Ok(Alignment(32)),
        16 => Ok(Alignment(64)),
        32 => Ok(Alignment(128)),
        _ => Err(Failure::invalid(format!("reed_sol_van: w={word} must be one of {{8, 16, 32}}"))),
    }
}

fn isa(terms: &mut Terms) -> Result<Alignment, Failure> {
    let technique = terms.text("technique", "reed_sol_van");
    match technique.as_str() {
        "reed_sol_van" | "cauchy" => Ok(Alignment(32)),
        _ => Err(no_technique(&technique, "reed_sol_van,cauchy")),
    }
}

/// The techniques of a stock cluster's jerasure.
const JERASURE: [&str; 7] = [
    "reed_sol_van",
    "reed_sol_r6_op",
    "cauchy_orig",
    "cauchy_good",
    "liberation",
    "blaum_roth",
    "liber8tion",
];

/// The error, in a stock monitor's words.
fn no_technique(technique: &str, all: &str) -> Failure {
    Failure::missing(format!(
        "technique={technique} is not a valid coding technique.  Choose one of the following: {all}"
    ))
}

/// A profile that is being completed.
struct Terms(Profile);

impl Terms {
    fn text(&mut self, key: &str, default: &str) -> String {
        self.0.entry(key.into()).or_insert_with(|| default.into()).to_string()
    }

    fn number(&mut self, key: &str, default: i64) -> Result<i64, Failure> {
        let text = self.text(key, &default.to_string());
        text.parse().map_err(|_| {
            Failure::invalid(format!(
                "could not convert {key}={text} to int: expected an integer, got '{text}'"
            ))
        })
    }

    /// The stripe unit. Like a stock monitor, does not add the default to the profile.
    fn stripe_unit(&self, Alignment(alignment): Alignment, force: bool) -> Result<u32, Failure> {
        let Some(said) = self.0.get(&Name::from("stripe_unit")) else {
            return Ok(STRIPE_UNIT.next_multiple_of(alignment));
        };
        let unit = parse_bytes(&said.to_string()).filter(|unit| *unit > 0);
        let unit = unit.ok_or_else(|| Failure::invalid(format!("could not parse stripe_unit '{said}'")))?;
        if !unit.is_multiple_of(alignment) {
            let padded = unit.next_multiple_of(alignment);
            return Err(Failure::invalid(format!(
                "stripe_unit {unit} does not match ec profile alignment. Would be padded to {padded}"
            )));
        }
        if !unit.is_multiple_of(STRIPE_UNIT) && !force {
            return Err(Failure::invalid(
                "stripe_unit should be a multiple of 4096 bytes for best performance. use --force to override this \
                 check",
            ));
        }
        Ok(unit)
    }
}

/// Parses `4K`, `4Ki`, `4096`, `1M`; at most 16 MiB, so that stripes stay far below the maximum object
/// size.
fn parse_bytes(text: &str) -> Option<u32> {
    const MAX: u32 = 16 << 20;
    u32::try_from(parse_size(text).ok()?).ok().filter(|bytes| *bytes <= MAX)
}

/// The parameters of a new erasure-coded pool.
pub struct NewErasurePool<'a> {
    /// Its name.
    pub name: &'a str,
    /// Number of placement groups; 0 selects the default.
    pub pg_num: u32,
    /// The profile; `None` selects the default one.
    pub profile: Option<&'a str>,
    /// The CRUSH rule; `None` creates one from the profile.
    pub rule: Option<&'a str>,
}

impl State {
    /// The profile of this name.
    ///
    /// # Errors
    /// ENOENT if there is none.
    pub fn profile(&self, name: &str) -> Result<&Profile, Failure> {
        let profile = self.osdmap().erasure_code_profiles.get(&Name::from(name));
        profile.ok_or_else(|| Failure::missing(format!("unknown erasure code profile '{name}'")))
    }

    /// Parses the profile of this name.
    ///
    /// # Errors
    /// EINVAL, as from a stock monitor, if there is none.
    pub fn code(&self, name: &str) -> Result<Code, Failure> {
        let unknown = |_| {
            let status = "cannot determine the erasure code plugin because there is no 'plugin' entry in the \
                          erasure_code_profile {}";
            Failure::invalid(status)
        };
        Code::of(self.profile(name).map_err(unknown)?.clone(), true)
    }

    /// Adds or changes a profile. `force` replaces an existing one that differs.
    ///
    /// # Errors
    /// EPERM if a different profile of this name exists; EINVAL for a failure domain that the CRUSH map
    /// does not have.
    pub fn set_profile(&mut self, now: UTime, name: &str, code: Code, force: bool) -> Result<(), Failure> {
        if self.osdmap().crush.type_by_name(&code.failure_domain).is_none() {
            return Err(Failure::invalid(format!(
                "erasure-code-profile {} contains an invalid failure-domain \"{}\"",
                shown(&code.profile),
                code.failure_domain
            )));
        }
        if let Ok(known) = self.profile(name) {
            let complete = Code::of(known.clone(), true).map(|code| code.profile);
            if complete.as_ref().ok() == Some(&code.profile) {
                return Ok(());
            }
            if !force {
                let status = format!(
                    "will not override erasure code profile {name} because the existing profile {} is different \
                     from the proposed profile {}",
                    shown(complete.as_ref().unwrap_or(known)),
                    shown(&code.profile)
                );
                return Err(Failure::new(Errno::EPERM, status));
            }
        }
        self.change_osdmap(now, |_, inc| {
            inc.new_erasure_code_profiles.insert(name.into(), code.profile);
        })?;
        Ok(())
    }

    /// Removes a profile. Returns `false` if there is none.
    ///
    /// # Errors
    /// EBUSY if a pool uses it.
    pub fn remove_profile(&mut self, now: UTime, name: &str) -> Result<bool, Failure> {
        if self.profile(name).is_err() {
            return Ok(false);
        }
        let map = self.osdmap();
        let users = map.pools.iter().filter(|(_, pool)| pool.erasure_code_profile == *name);
        let users: Vec<_> =
            users.filter_map(|(id, _)| map.pool_name(*id)).map(|name| text::of(name) + " ").collect();
        if !users.is_empty() {
            let status = format!("{}pool(s) are using the erasure code profile '{name}'", users.concat());
            return Err(Failure::new(Errno::EBUSY, status));
        }
        self.change_osdmap(now, |_, inc| inc.old_erasure_code_profiles.push(name.into()))?;
        Ok(true)
    }

    /// Creates an erasure-coded pool, unless it exists already.
    ///
    /// # Errors
    /// As [`State::create_pool`]; the profile or rule does not exist; more shards than OSDs.
    pub fn create_erasure_pool(&mut self, now: UTime, new: &NewErasurePool<'_>) -> Result<Created, Failure> {
        let name = new.name;
        let map = self.osdmap();
        if let Some(id) = map.pool_by_name(&text::to_bytes(name)) {
            return match map.pool(id).is_some_and(PgPool::is_erasure) {
                true => Ok(Created::Existed(id)),
                false => Err(Failure::invalid(format!("pool '{name}' cannot change to type erasure"))),
            };
        }
        check_name(name)?;
        let pg_num = self.pg_num_of_new_pool(new.pg_num)?;
        let profile_name = new.profile.unwrap_or(DEFAULT_PROFILE);
        let code = self.code(profile_name)?;
        code.check_fits(map)?;
        let mut crush = CrushMap::clone(&map.crush);
        let rule = match (new.rule, profile_name) {
            (Some(rule), _) => existing_rule(&crush, rule)?,
            (None, DEFAULT_PROFILE) => code.add_rule(&mut crush, "erasure-code")?,
            (None, _) => code.add_rule(&mut crush, name)?,
        };
        let mut pool = PgPool::erasure(code.data, code.coding, pg_num);
        (pool.crush_rule, pool.stripe_width) = (rule, code.stripe_width());
        pool.erasure_code_profile = profile_name.into();
        pool.flags = pool.flags.union(self.flag_of_new_pools());
        let mut id = Default::default();
        self.change_osdmap(now, |map, inc| {
            if crush != *map.crush {
                inc.set_crush(&crush);
            }
            id = inc.create_pool(map, text::name(name), pool);
        })?;
        Ok(Created::New(id))
    }
}

fn existing_rule(crush: &CrushMap, name: &str) -> Result<u8, Failure> {
    let rule = crush.rule_by_name(name).and_then(|number| u8::try_from(number).ok());
    let rule = rule.ok_or_else(|| Failure::missing(format!("specified rule {name} doesn't exist")))?;
    match crush.rule(usize::from(rule)).is_some_and(|rule| rule.kind == RuleKind::ERASURE) {
        true => Ok(rule),
        // A stock monitor's complete message for a rule of another type.
        false => Err(Failure::invalid("(22) Invalid argument")),
    }
}

fn shown(profile: &Profile) -> String {
    let pairs: Vec<_> = profile.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error numbers are those of a monitor of 16.2.15, with two exceptions: 95 marks what only a
    /// stock cluster supports, and a stock monitor refuses `k=200` only when a pool is created with it.
    #[test]
    fn profiles_are_completed_and_checked() {
        let code = Code::of_words(&["k=2", "m=1", "crush-failure-domain=osd"], false).expect("a code");
        assert_eq!((code.data, code.coding, code.stripe_width()), (2, 1, 8192));
        assert_eq!(
            shown(&code.profile),
            "{crush-device-class=,crush-failure-domain=osd,crush-root=default,jerasure-per-chunk-alignment=false,\
             k=2,m=1,plugin=jerasure,technique=reed_sol_van,w=8}"
        );
        assert_eq!(Code::of_words(&[], false).expect("the default").shards(), 4);
        assert_eq!(Code::of_words(&["plugin=isa"], false).expect("of isa").shards(), 10);
        let refused = [
            (["k=1"], 22),
            (["m=0"], 22),
            (["k=x"], 22),
            (["k=200"], 22),
            (["w=7"], 22),
            (["plugin=lrc"], 95),
            (["plugin=nosuch"], 5),
            (["technique=nosuch"], 2),
            (["technique=cauchy_good"], 95),
            (["stripe_unit=100"], 22),
            (["stripe_unit=4M2"], 22),
            (["stripe_unit=9999999999"], 22),
        ];
        for (words, errno) in refused {
            assert_eq!(Code::of_words(&words, false).unwrap_err().errno, Errno(errno), "{words:?}");
        }
        assert!(Code::of_words(&["stripe_unit=32"], false).is_err());
        assert_eq!(Code::of_words(&["stripe_unit=32"], true).expect("forced").stripe_width(), 64);
        assert_eq!(Code::of_words(&["stripe_unit=8K"], false).expect("larger").stripe_width(), 16384);
    }
}
