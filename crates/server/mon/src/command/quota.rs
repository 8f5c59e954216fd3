//! `osd pool set-quota | get-quota`: the maximum content of a pool.

use loligo_conf::unit_power;

use super::{Call, Failure, Outcome, Reply};
use crate::output::json::object;
use crate::output::units::{bytes, count};

/// The bounds that `osd pool set-quota` accepts.
pub(super) const FIELDS: [&str; 2] = ["max_objects", "max_bytes"];

/// Sets one of the bounds; 0 removes it. [`crate::state::State::check_quotas`] updates the pool's flags.
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let (pool, field, given) =
        (call.args.required("pool"), call.args.required("field"), call.args.required("val"));
    let id = call.state.pool_id(pool)?;
    let units = if field == "max_bytes" { Units::Binary } else { Units::Decimal };
    let value = units
        .parse(given)
        .map_err(|why| Failure::invalid(format!("error parsing value '{given}': {why}")))?;
    call.state.change_pool(call.now, id, |pool| match units {
        Units::Binary => pool.quota_max_bytes = value,
        Units::Decimal => pool.quota_max_objects = value,
    })?;
    Ok(Reply::status(format!("set-quota {field} = {value} for pool {pool}")))
}

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("pool");
    let id = call.state.pool_id(name)?;
    let Some(pool) = call.state.osdmap().pool(id) else { return Ok(Reply::default()) };
    let (max_objects, max_bytes) = (pool.quota_max_objects, pool.quota_max_bytes);
    let held = call.usage.pool(id);
    let node = |_: &Call<'_>| {
        object! {
            "pool_name": name, "pool_id": id.0,
            "quota_max_objects": max_objects, "current_num_objects": held.num_objects,
            "quota_max_bytes": max_bytes, "current_num_bytes": held.num_bytes,
        }
    };
    let plain = |_: &Call<'_>| {
        let bound = |max: u64, shown: String, held: String| match max {
            0 => "N/A".to_owned(),
            _ => format!("{shown}  (current num {held})"),
        };
        let objects = bound(
            max_objects,
            count(max_objects) + " objects",
            format!("objects: {} objects", held.num_objects),
        );
        let bytes = bound(max_bytes, bytes(max_bytes), format!("bytes: {} bytes", held.num_bytes));
        format!("quotas for pool '{name}':\n  max objects: {objects}\n  max bytes  : {bytes}\n")
    };
    Ok(call.print(node, plain))
}

/// The meaning of the unit after a number.
#[derive(Clone, Copy)]
enum Units {
    /// `K` is 1,000.
    Decimal,
    /// `K` and `Ki` are 1,024.
    Binary,
}

impl Units {
    /// Parses a number with a unit. The errors are a stock monitor's.
    fn parse(self, text: &str) -> Result<u64, String> {
        let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '-' | '+')).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (base, function, cast) = match self {
            Self::Decimal => (1000u64, "strict_sistrtoll", "strict_si_cast"),
            Self::Binary => (1024, "strict_iecstrtoll", "strict_iecstrtoll"),
        };
        if text.is_empty() {
            return Err(format!("{function}: value not specified"));
        }
        let letter = match self {
            Self::Decimal => unit,
            Self::Binary => unit.strip_suffix('i').filter(|letter| !letter.is_empty()).unwrap_or(unit),
        };
        let power = unit_power(letter).ok_or_else(|| format!("{cast}: unit prefix not recognized"))?;
        let value: i64 =
            number.parse().map_err(|_| format!("The option value '{number}' contains invalid digits"))?;
        let value = u64::try_from(value).map_err(|_| format!("{function}: value should not be negative"))?;
        let value = value.checked_mul(base.pow(power)).filter(|value| i64::try_from(*value).is_ok());
        value.ok_or_else(|| format!("{function}: value seems to be too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::Units::{Binary, Decimal};

    #[test]
    fn numbers_are_read_as_a_stock_monitor_reads_them() {
        assert_eq!(
            ["0", "10K", "7E", "12B"].map(|text| Decimal.parse(text)),
            [0, 10_000, 7 * 10u64.pow(18), 12].map(Ok)
        );
        assert_eq!(
            ["1K", "1Ki", "3Gi", "5"].map(|text| Binary.parse(text)),
            [1024, 1024, 3 << 30, 5].map(Ok)
        );
        for (text, why) in [
            ("10k", "strict_si_cast: unit prefix not recognized"),
            ("1Ki", "strict_si_cast: unit prefix not recognized"),
            ("-1", "strict_sistrtoll: value should not be negative"),
            ("", "strict_sistrtoll: value not specified"),
        ] {
            assert_eq!(Decimal.parse(text).unwrap_err(), why);
        }
        for text in ["x", "1.5", "1i"] {
            assert_eq!(Binary.parse(text).unwrap_err(), "strict_iecstrtoll: unit prefix not recognized");
        }
        assert!(Binary.parse("16E").is_err() && Binary.parse("+-3").is_err());
    }
}
