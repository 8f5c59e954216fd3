//! `osd pool autoscale-status`: the number of placement groups that suits each pool's content. Nothing
//! is scaled automatically.

use az::SaturatingAs as _;
use loligo_maps::PgPool;
use loligo_wire::PoolId;

use super::pool_opts::PoolSetting;
use super::{Call, Outcome, Reply};
use crate::number::{nearest_power_of_two, whole};
use crate::output::Format;
use crate::output::json::Node;
use crate::output::table::{Align, Table};
use crate::{text, view};

/// Target number of placement groups of an OSD (`mon_target_pg_per_osd`).
const PER_OSD: f64 = 100.0;
/// Default minimum of a pool's placement groups.
const MIN_DEFAULT: i64 = 32;
/// A pool is only adjusted if its number is off by this factor.
const THRESHOLD: f64 = 3.0;

/// The facts about a pool, and the number of placement groups that suits it.
struct Line {
    id: PoolId,
    name: String,
    mode: &'static str,
    pg_num: u32,
    logical_used: u64,
    rate: f64,
    capacity: u64,
    bias: f64,
    is_bulk: bool,
    target_bytes: u64,
    target_ratio: f64,
    effective_ratio: f64,
    /// The fraction of the space that the pool takes, or is expected to take.
    ratio: f64,
    least: i64,
    most: Option<i64>,
    ideal: f64,
}

pub(super) fn status(call: &mut Call<'_>) -> Outcome {
    let lines = lines(call);
    Ok(match call.format {
        Format::Json | Format::JsonPretty => Reply::output(text::to_bytes(&json(&lines))),
        // Like the manager's module, which does not support XML.
        Format::Plain | Format::Xml | Format::XmlPretty => Reply::output(text::to_bytes(&table(&lines))),
    })
}

fn lines(call: &Call<'_>) -> Vec<Line> {
    let map = call.state.osdmap();
    let mut lines: Vec<Line> = map.pools.iter().map(|(id, pool)| line(call, *id, pool)).collect();
    set_ratios(&mut lines);
    let osds = call.state.served_osds().filter(|osd| map.is_in(*osd)).count();
    set_ideals(&mut lines, osds as f64 * PER_OSD);
    lines
}

fn line(call: &Call<'_>, id: PoolId, pool: &PgPool) -> Line {
    let number = |name: &str| match PoolSetting::find(name).and_then(|setting| setting.value(pool)) {
        Some(Node::Int(n)) => Some(n as f64),
        Some(Node::Float(x)) => Some(x),
        _ => None,
    };
    let flags = view::pool_flags(pool.flags);
    let sum = call.usage.pool(id);
    let target_ratio = number("target_size_ratio").unwrap_or(0.0);
    Line {
        id,
        name: call.state.osdmap().pool_name(id).map(text::of).unwrap_or_default(),
        mode: view::autoscale_mode(pool.pg_autoscale_mode),
        pg_num: pool.pg_num_target,
        logical_used: u64::try_from(sum.num_bytes).unwrap_or(0)
            + u64::try_from(sum.num_omap_bytes).unwrap_or(0),
        rate: rate(call, pool),
        capacity: call.usage.space.total,
        bias: number("pg_autoscale_bias").unwrap_or(1.0),
        is_bulk: flags.contains(&"bulk"),
        // A target ratio takes precedence over a target size.
        target_bytes: if target_ratio > 0.0 { 0 } else { whole(number("target_size_bytes").unwrap_or(0.0)) },
        target_ratio,
        effective_ratio: 0.0,
        ratio: 0.0,
        least: number("pg_num_min").map_or(MIN_DEFAULT, |n| whole(n).saturating_as::<i64>()),
        most: number("pg_num_max").map(|n| whole(n).saturating_as::<i64>()).filter(|most| *most > 0),
        ideal: 0.0,
    }
}

/// Raw bytes that a byte of a pool takes.
fn rate(call: &Call<'_>, pool: &PgPool) -> f64 {
    let size = f64::from(pool.size);
    let profile = call.state.osdmap().erasure_code_profiles.get(&pool.erasure_code_profile);
    let k = profile.filter(|_| pool.is_erasure()).and_then(|profile| profile.get(b"k".as_slice()));
    let k = k.and_then(|k| k.as_text()?.parse::<f64>().ok()).filter(|k| *k > 0.0);
    k.map_or(size, |k| size / k)
}

impl Line {
    fn raw_used(&self) -> f64 {
        self.logical_used.max(self.target_bytes) as f64 * self.rate
    }

    fn actual_raw_used(&self) -> f64 {
        self.logical_used as f64 * self.rate
    }

    fn of_capacity(&self, raw: f64) -> f64 {
        if self.capacity == 0 { 0.0 } else { raw / self.capacity as f64 }
    }

    /// The final number: a power of two within the pool's bounds.
    fn last(&self) -> i64 {
        let power = nearest_power_of_two(whole(self.ideal)).saturating_as::<i64>();
        let wanted = power.max(self.least);
        self.most.map_or(wanted, |most| wanted.min(most))
    }

    fn would_adjust(&self) -> bool {
        let (last, now) = (self.last() as f64, f64::from(self.pg_num));
        let is_off = last > now * THRESHOLD || last < now / THRESHOLD;
        self.mode != "off" && is_off && (0.0..=1.0).contains(&self.ratio)
    }
}

/// Computes the ratios. Pools with a target ratio share the space that pools with a target size leave.
fn set_ratios(lines: &mut [Line]) {
    let all: f64 = lines.iter().map(|line| line.target_ratio).sum();
    let bytes: f64 = lines.iter().map(|line| line.of_capacity(line.target_bytes as f64 * line.rate)).sum();
    let left = (1.0 - bytes.min(1.0)).max(0.0);
    for line in lines {
        if line.target_ratio > 0.0 && all > 0.0 {
            // Target ratios are relative to each other. Together they cover all the space that target
            // sizes leave.
            line.effective_ratio = line.target_ratio / all * left;
        }
        line.ratio = line.of_capacity(line.raw_used()).max(line.effective_ratio);
    }
}

/// Computes the ideal numbers. A pool gets placement groups in proportion to its share of the space, out
/// of those that the pools before it have left. Each bulk pool gets at least an equal share of the
/// remainder.
fn set_ideals(lines: &mut [Line], target: f64) {
    let mut left = target;
    for line in lines.iter_mut().filter(|line| !line.is_bulk) {
        line.ideal = line.ratio * left.max(0.0) / line.rate * line.bias;
        left -= line.ideal * line.rate;
    }
    let bulk = lines.iter().filter(|line| line.is_bulk).count().max(1) as f64;
    let share = left.max(0.0) / bulk;
    for line in lines.iter_mut().filter(|line| line.is_bulk) {
        line.ideal = (line.ratio * left.max(0.0)).max(share) / line.rate * line.bias;
    }
    lines.sort_by_key(|line| (line.is_bulk, line.id));
}

/// Formats like Python's `json.dumps` with sorted field names.
fn json(lines: &[Line]) -> String {
    let objects: Vec<String> = lines.iter().map(json_object).collect();
    if objects.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", objects.join(",\n")) }
}

fn json_object(line: &Line) -> String {
    let name = Node::from(line.name.as_str()).to_string();
    let fields = [
        ("actual_capacity_ratio", format!("{:?}", line.of_capacity(line.actual_raw_used()))),
        ("actual_raw_used", format!("{:?}", line.actual_raw_used())),
        ("bias", format!("{:?}", line.bias)),
        ("bulk", line.is_bulk.to_string()),
        ("capacity_ratio", format!("{:?}", line.ratio)),
        ("crush_root_id", "-1".to_owned()),
        ("effective_target_ratio", format!("{:?}", line.effective_ratio)),
        ("logical_used", line.logical_used.to_string()),
        ("pg_autoscale_mode", format!("\"{}\"", line.mode)),
        ("pg_num_final", line.last().to_string()),
        ("pg_num_ideal", whole(line.ideal).to_string()),
        ("pg_num_target", line.pg_num.to_string()),
        ("pool_id", line.id.to_string()),
        ("pool_name", name),
        ("raw_used", format!("{:?}", line.raw_used())),
        ("raw_used_rate", format!("{:?}", line.rate)),
        ("subtree_capacity", line.capacity.to_string()),
        ("target_bytes", line.target_bytes.to_string()),
        ("target_ratio", format!("{:?}", line.target_ratio)),
        ("would_adjust", line.would_adjust().to_string()),
    ];
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("        \"{name}\": {value}")).collect();
    format!("    {{\n{}\n    }}", fields.join(",\n"))
}

fn table(lines: &[Line]) -> String {
    use Align::{Left, Right};
    let right = [
        "SIZE",
        "TARGET SIZE",
        "RATE",
        "RAW CAPACITY",
        "RATIO",
        "TARGET RATIO",
        "EFFECTIVE RATIO",
        "BIAS",
        "PG_NUM",
        "NEW PG_NUM",
    ];
    let titles = right.map(|title| (title, Right));
    let titles = [("POOL", Left)].into_iter().chain(titles).chain([("AUTOSCALE", Left), ("BULK", Left)]);
    let mut table = Table::new(titles);
    for line in lines {
        let ratio = |x: f64| if x > 0.0 { format!("{x:.4}") } else { String::new() };
        let last = line.last();
        table.row([
            line.name.clone(),
            short(line.logical_used),
            if line.target_bytes > 0 { short(line.target_bytes) } else { String::new() },
            format!("{:?}", line.rate),
            short(line.capacity),
            format!("{:.4}", line.ratio),
            ratio(line.target_ratio),
            ratio(line.effective_ratio),
            format!("{:?}", line.bias),
            line.pg_num.to_string(),
            if line.would_adjust() { last.to_string() } else { String::new() },
            line.mode.to_owned(),
            if line.is_bulk { "True" } else { "False" }.to_owned(),
        ]);
    }
    // The module ends each line with the gap between columns.
    table.to_string().lines().map(|line| format!("{line}  \n")).collect()
}

/// A size of at most five characters: `8192M`, `4096M`, `20480k`.
fn short(bytes: u64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let mut value = bytes;
    let mut unit = 0;
    while value.to_string().len() > 4 && unit + 1 < units.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value}{}", units[unit])
}
