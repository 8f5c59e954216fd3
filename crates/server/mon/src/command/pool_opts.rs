//! Optional settings of pools (`pool_opts_t`): their names, types, bounds and output.
//!
//! Settings on recovery, compression and checksums concern OSDs that implement these; here they are only
//! stored and shown. So are the settings on scrubs, which only follow the options `osd_scrub_…`.

use az::SaturatingAs as _;
use loligo_conf::table::parse_size;
use loligo_maps::{Name, PgPool, PoolOpt, PoolOptKey};

use super::{Call, Errno, Failure};
use crate::output::json::Node;

/// A setting.
pub(super) struct PoolSetting {
    /// Its name in commands and in `osd dump`.
    pub name: &'static str,
    key: PoolOptKey,
    kind: Kind,
}

/// The type of a setting. The checks and their texts are those of a monitor of 16.2.15.
enum Kind {
    /// Any text.
    Text,
    /// One of these words, and a monitor's name for the setting in its errors.
    Word(&'static [&'static str], &'static str),
    /// An integer, and a monitor's name for the type in its errors.
    Int(&'static str),
    /// An integer with a binary unit, and a monitor's name for the type in its errors.
    Size(&'static str),
    /// A checksum type by name; stored as a number.
    Checksum,
    /// A number from 0 to 1.
    Ratio,
    /// Any number.
    Double,
    /// The name of a pool; stored as its id.
    Pool,
}

const INT: &str = "int";
const INTEGER: &str = "integer";

const fn setting(name: &'static str, key: i32, kind: Kind) -> PoolSetting {
    PoolSetting { name, key: PoolOptKey(key), kind }
}

/// All settings, in the order in which `osd pool get … all` shows them.
#[rustfmt::skip] // a table
pub(super) static SETTINGS: [PoolSetting; 23] = [
    setting("scrub_min_interval", 0, Kind::Double),
    setting("scrub_max_interval", 1, Kind::Double),
    setting("deep_scrub_interval", 2, Kind::Double),
    setting("recovery_priority", 3, Kind::Int(INT)),
    setting("recovery_op_priority", 4, Kind::Int(INTEGER)),
    setting("scrub_priority", 5, Kind::Int(INTEGER)),
    setting("compression_mode", 6, Kind::Word(&["none", "passive", "aggressive", "force"], "compression mode")),
    setting("compression_algorithm", 7, Kind::Word(&["none", "snappy", "zlib", "zstd", "lz4"], "compression_algorithm")),
    setting("compression_required_ratio", 8, Kind::Ratio),
    setting("compression_max_blob_size", 9, Kind::Size(INT)),
    setting("compression_min_blob_size", 10, Kind::Size(INT)),
    setting("csum_type", 11, Kind::Checksum),
    setting("csum_max_block", 12, Kind::Size(INT)),
    setting("csum_min_block", 13, Kind::Size(INT)),
    setting("fingerprint_algorithm", 14, Kind::Text),
    setting("pg_num_min", 15, Kind::Int(INT)),
    setting("target_size_bytes", 16, Kind::Size("unit")),
    setting("target_size_ratio", 17, Kind::Double),
    setting("pg_autoscale_bias", 18, Kind::Double),
    setting("dedup_tier", 20, Kind::Pool),
    setting("dedup_chunk_algorithm", 21, Kind::Text),
    setting("dedup_cdc_chunk_size", 22, Kind::Int(INT)),
    setting("pg_num_max", 23, Kind::Int(INT)),
];

/// The names of checksum types; their numbers start at 1.
const CHECKSUMS: [&str; 6] = ["none", "xxhash32", "xxhash64", "crc32c", "crc32c_16", "crc32c_8"];
/// The word that removes a text setting. Number settings are removed with 0.
pub(super) const UNSET: &str = "unset";
/// Maximum absolute value of a pool's recovery priority.
const PRIORITY_MAX: i64 = 10;
/// Maximum factor by which the autoscaler may favor a pool.
const BIAS_MAX: f64 = 1000.0;

impl PoolSetting {
    /// The setting with this name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Its value in a pool, as `osd dump` shows it.
    pub(super) fn value(&self, pool: &PgPool) -> Option<Node> {
        Some(match pool.opts.0.get(&self.key)? {
            PoolOpt::Text(text) => Node::from(text.to_string()),
            PoolOpt::Int(n) => Node::from(*n),
            PoolOpt::Double(x) => Node::from(*x),
        })
    }

    /// Its value in a pool, as `osd pool get` shows it: checksum types by name.
    pub(super) fn shown(&self, pool: &PgPool) -> Option<Node> {
        let value = self.value(pool)?;
        let (Kind::Checksum, Node::Int(number)) = (&self.kind, &value) else { return Some(value) };
        let index = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
        let name = index.and_then(|index| CHECKSUMS.get(index));
        Some(name.map_or(value, |name| Node::from(*name)))
    }

    /// Sets the value in a pool; `None` removes it.
    pub(super) fn put(&self, pool: &mut PgPool, value: Option<PoolOpt>) {
        match value {
            Some(value) => drop(pool.opts.0.insert(self.key, value)),
            None => drop(pool.opts.0.remove(&self.key)),
        }
    }

    /// Parses a value; `None` if the setting is to be removed.
    pub(super) fn parse(
        &self,
        call: &Call<'_>,
        pool: &PgPool,
        val: &str,
    ) -> Result<Option<PoolOpt>, Failure> {
        let (name, unset) = (self.name, val == UNSET);
        match &self.kind {
            Kind::Text | Kind::Word(..) | Kind::Checksum if unset => Ok(None),
            Kind::Word(words, what) if !words.contains(&val) => {
                Err(Failure::invalid(format!("unrecognized {what} '{val}'")))
            }
            Kind::Text | Kind::Word(..) => Ok(Some(PoolOpt::Text(Name::from(val)))),
            Kind::Checksum => match CHECKSUMS.iter().position(|known| *known == val) {
                Some(index) => Ok(Some(PoolOpt::Int(index.saturating_as::<i64>() + 1))),
                None => Err(Failure::invalid(format!("unrecognized {name} '{val}'"))),
            },
            Kind::Int(what) => self.within(pool, integer(what, val)?).map(int),
            Kind::Size(what) => {
                let refused = |why| Failure::invalid(format!("error parsing {what} value '{val}': {why}"));
                parse_size(val).map(int).map_err(|rejected| refused(rejected.why))
            }
            Kind::Ratio => {
                let ratio = double("float", val)?;
                let inside = (0.0..=1.0).contains(&ratio);
                let refused = || Failure::invalid(format!("{name} is out of range (0-1): '{val}'"));
                inside.then(|| float(ratio)).ok_or_else(refused)
            }
            Kind::Double => self.sensible(double("floating point", val)?).map(float),
            Kind::Pool if matches!(val.parse::<f64>(), Ok(x) if x.is_finite()) => {
                Err(Failure::invalid("expecting value 'pool name'"))
            }
            Kind::Pool => call.state.pool_id(val).map(|id| int(id.0)),
        }
    }

    fn within(&self, pool: &PgPool, n: i64) -> Result<i64, Failure> {
        let pg_num = i64::from(pool.pg_num());
        let refused = match self.name {
            "recovery_priority" if n.abs() > PRIORITY_MAX => {
                format!("pool recovery_priority must be between -{PRIORITY_MAX} and {PRIORITY_MAX}")
            }
            "pg_num_min" if n > pg_num => format!("specified pg_num_min {n} > pg_num {pg_num}"),
            "pg_num_max" if n != 0 && n < pg_num => format!("specified pg_num_max {n} < pg_num {pg_num}"),
            _ => return Ok(n),
        };
        Err(Failure::invalid(refused))
    }

    fn sensible(&self, x: f64) -> Result<f64, Failure> {
        match self.name {
            "pg_autoscale_bias" if !(0.0..=BIAS_MAX).contains(&x) => {
                Err(Failure::invalid(format!("pg_autoscale_bias must be between 0 and {BIAS_MAX}")))
            }
            "target_size_ratio" if x < 0.0 => Err(Failure::invalid("target_size_ratio cannot be negative")),
            _ => Ok(x),
        }
    }
}

/// The settings of a pool, by name, as `osd dump` shows them.
pub(super) fn options(pool: &PgPool) -> Vec<(&'static str, Node)> {
    let mut set: Vec<_> =
        SETTINGS.iter().filter_map(|setting| Some((setting.name, setting.value(pool)?))).collect();
    set.sort_unstable_by_key(|(name, _)| *name);
    set
}

/// The error for a setting that a pool does not have.
pub(super) fn not_set(name: &str, pool: &str) -> Failure {
    Failure::new(Errno::ENOENT, format!("option '{name}' is not set on pool '{pool}'"))
}

fn int(n: i64) -> Option<PoolOpt> {
    (n != 0).then_some(PoolOpt::Int(n))
}

fn float(x: f64) -> Option<PoolOpt> {
    (x != 0.0).then_some(PoolOpt::Double(x))
}

/// Parses an integer; `what` is a monitor's name for the type in its errors.
pub(super) fn integer(what: &str, val: &str) -> Result<i64, Failure> {
    val.parse().map_err(|_| {
        let why = format!("Expected option value to be integer, got '{val}'");
        Failure::invalid(format!("error parsing {what} value '{val}': {why}"))
    })
}

fn double(what: &str, val: &str) -> Result<f64, Failure> {
    let refused = |why| Failure::invalid(format!("error parsing {what} value '{val}': strict_strtod: {why}"));
    let numeric = |text: &str| text.parse::<f64>().ok().filter(|x| x.is_finite());
    if let Some(x) = numeric(val) {
        return Ok(x);
    }
    // A number with trailing characters gets another error than a text without a number.
    let begins = (1..val.len()).filter_map(|end| val.get(..end)).any(|begin| numeric(begin).is_some());
    Err(refused(match begins {
        true => format!("garbage at end of string. got: '{val}'"),
        false => format!("expected double, got: '{val}'"),
    }))
}
