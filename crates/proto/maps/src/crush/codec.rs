//! The encoding of CRUSH maps (`CrushWrapper::encode` in `src/crush/CrushWrapper.cc`). It has no
//! envelope: newer releases append fields, and older maps end early.

use std::collections::BTreeMap;

use az::SaturatingAs as _;
use loligo_wire::{Decode, DecodeError, Reader, Writer, features};

use super::{Bucket, BucketAlg, ChooseArg, ChooseArgs, CrushMap, Rule, RuleKind, Step, StepOp, Tunables};
use crate::{Features, Name};

const MAGIC: u32 = 0x0001_0000;

impl CrushMap {
    /// Appends the map in the form that a monitor with these features writes.
    pub fn encode(&self, writer: Features, w: &mut Writer) {
        w.u32(MAGIC);
        w.count(self.buckets.len());
        w.count(self.rules.len());
        w.i32(self.max_devices);
        self.buckets.iter().for_each(|bucket| encode_bucket(bucket.as_ref(), w));
        for (number, rule) in self.rules.iter().enumerate() {
            encode_rule(number, rule.as_ref(), writer, w);
        }
        w.put(&self.type_names);
        w.put(&self.names);
        w.put(&self.rule_names);
        encode_tunables(&self.tunables, w);
        w.put(&self.classes);
        w.put(&self.class_names);
        w.put(&self.class_buckets);
        encode_choose_args(&self.choose_args, w);
        if writer.has(features::CRUSH_MSR) {
            w.u32(self.tunables.msr_descents);
            w.u32(self.tunables.msr_collision_tries);
        }
    }

    /// Decodes a map that occupies all of `r`, and validates it.
    ///
    /// # Errors
    /// Malformed bytes, or a map whose parts are inconsistent, see [`CrushMap::validate`].
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let magic = r.u32()?;
        if magic != MAGIC {
            return Err(DecodeError::Invalid { what: "crush magic", value: u64::from(magic) });
        }
        let bucket_count = r.u32()?;
        let rule_count = r.u32()?;
        let mut map = Self { max_devices: r.i32()?, tunables: Tunables::LEGACY, ..Self::default() };
        map.buckets = decode_places(r, bucket_count, |r, _| decode_bucket(r))?;
        map.rules = decode_places(r, rule_count, decode_rule)?;
        map.type_names = decode_names(r)?;
        map.names = decode_names(r)?;
        map.rule_names = decode_names(r)?;
        map.decode_appended(r)?;
        map.repair_choose_args();
        map.count_devices();
        map.validate()?;
        Ok(map)
    }

    /// Decodes the fields that releases have appended. An older map ends between two of them.
    fn decode_appended(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let tunables = &mut self.tunables;
        if !r.is_empty() {
            tunables.choose_local_tries = r.u32()?;
            tunables.choose_local_fallback_tries = r.u32()?;
            tunables.choose_total_tries = r.u32()?;
        }
        read_unless_end(r, &mut tunables.chooseleaf_descend_once)?;
        read_unless_end(r, &mut tunables.chooseleaf_vary_r)?;
        read_unless_end(r, &mut tunables.straw_calc_version)?;
        read_unless_end(r, &mut tunables.allowed_bucket_algs)?;
        read_unless_end(r, &mut tunables.chooseleaf_stable)?;
        if !r.is_empty() {
            self.classes = r.get()?;
            self.class_names = r.get()?;
            self.class_buckets = r.get()?;
        }
        if !r.is_empty() {
            let n = r.count(12)?;
            self.choose_args =
                (0..n).map(|_| Ok((r.i64()?, decode_choose_args(r)?))).collect::<Result<_, _>>()?;
        }
        if !r.is_empty() {
            self.tunables.msr_descents = r.u32()?;
            self.tunables.msr_collision_tries = r.u32()?;
        }
        Ok(())
    }

    /// Removes weight sets of missing buckets and of buckets that are not straw2, and adjusts the
    /// lengths of the others. Every Ceph daemon does this when it decodes a map, because old monitors
    /// could leave stale weight sets.
    fn repair_choose_args(&mut self) {
        let buckets = &self.buckets;
        for args in self.choose_args.values_mut() {
            args.0.retain(|&index, arg| {
                let bucket = buckets.get(index as usize).and_then(Option::as_ref);
                let Some(bucket) = bucket.filter(|b| matches!(b.alg, BucketAlg::Straw2 { .. })) else {
                    return false;
                };
                arg.weight_set.iter_mut().for_each(|weights| weights.resize(bucket.items.len(), 0));
                true
            });
        }
    }

    /// Computes `max_devices` from the devices that have a position or a name. Every Ceph daemon does
    /// this when it decodes a map, so the computed value is also what it encodes.
    fn count_devices(&mut self) {
        let items = self.buckets.iter().flatten().flat_map(|bucket| &bucket.items);
        let highest = items.chain(self.names.keys()).copied().max().unwrap_or(-1);
        self.max_devices = highest.saturating_add(1).max(0);
    }
}

fn read_unless_end<T: Decode>(r: &mut Reader<'_>, value: &mut T) -> Result<(), DecodeError> {
    if !r.is_empty() {
        *value = r.get()?;
    }
    Ok(())
}

/// Decodes a table of `count` entries. Each entry has at least the word that tells whether it is
/// present.
fn decode_places<T>(
    r: &mut Reader<'_>,
    count: u32,
    read: impl Fn(&mut Reader<'_>, usize) -> Result<Option<T>, DecodeError>,
) -> Result<Vec<Option<T>>, DecodeError> {
    let needed = u64::from(count) * 4;
    if needed > r.remaining() as u64 {
        return Err(DecodeError::Truncated { needed, left: r.remaining() });
    }
    (0..count as usize).map(|place| read(r, place)).collect()
}

fn encode_bucket(bucket: Option<&Bucket>, w: &mut Writer) {
    let Some(bucket) = bucket else { return w.u32(0) };
    let alg = bucket.alg.code();
    w.u32(u32::from(alg));
    w.i32(bucket.id);
    w.u16(bucket.kind);
    w.u8(alg);
    w.u8(bucket.hash);
    w.u32(bucket.weight);
    w.seq(&bucket.items);
    match &bucket.alg {
        BucketAlg::Uniform { item_weight } => w.u32(*item_weight),
        BucketAlg::List { item_weights, sum_weights: second }
        | BucketAlg::Straw { item_weights, straws: second } => {
            for (weight, second) in item_weights.iter().zip(second) {
                w.u32(*weight);
                w.u32(*second);
            }
        }
        BucketAlg::Tree { node_weights } => {
            w.u8(node_weights.len().saturating_as::<u8>());
            node_weights.iter().for_each(|weight| w.u32(*weight));
        }
        BucketAlg::Straw2 { item_weights } => item_weights.iter().for_each(|weight| w.u32(*weight)),
    }
}

fn decode_bucket(r: &mut Reader<'_>) -> Result<Option<Bucket>, DecodeError> {
    if r.u32()? == 0 {
        return Ok(None);
    }
    let id = r.i32()?;
    let kind = r.u16()?;
    let alg = r.u8()?;
    let hash = r.u8()?;
    let weight = r.u32()?;
    let items: Vec<i32> = r.get()?;
    let alg = match alg {
        1 => BucketAlg::Uniform { item_weight: r.u32()? },
        2 => {
            let (item_weights, sum_weights) = decode_pairs(r, items.len())?;
            BucketAlg::List { item_weights, sum_weights }
        }
        3 => {
            let nodes = usize::from(r.u8()?);
            BucketAlg::Tree { node_weights: decode_words(r, nodes)? }
        }
        4 => {
            let (item_weights, straws) = decode_pairs(r, items.len())?;
            BucketAlg::Straw { item_weights, straws }
        }
        5 => BucketAlg::Straw2 { item_weights: decode_words(r, items.len())? },
        other => {
            return Err(DecodeError::Invalid { what: "crush bucket algorithm", value: u64::from(other) });
        }
    };
    Ok(Some(Bucket { id, kind, hash, weight, items, alg }))
}

fn decode_words(r: &mut Reader<'_>, count: usize) -> Result<Vec<u32>, DecodeError> {
    let mut words = Reader::new(r.raw(count * 4)?);
    (0..count).map(|_| words.u32()).collect()
}

fn decode_pairs(r: &mut Reader<'_>, count: usize) -> Result<(Vec<u32>, Vec<u32>), DecodeError> {
    let words = decode_words(r, count * 2)?;
    Ok(words.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip())
}

fn encode_rule(number: usize, rule: Option<&Rule>, writer: Features, w: &mut Writer) {
    w.u32(u32::from(rule.is_some()));
    let Some(rule) = rule else { return };
    let sizes = if writer.has(features::SERVER_QUINCY) { (1, 100) } else { (rule.min_size, rule.max_size) };
    w.count(rule.steps.len());
    w.u8(number.saturating_as::<u8>()); // formerly the "ruleset"; must be the rule's number
    w.u8(rule.kind.0);
    w.u8(sizes.0);
    w.u8(sizes.1);
    for step in &rule.steps {
        w.u32(step.op.0);
        w.i32(step.arg1);
        w.i32(step.arg2);
    }
}

fn decode_rule(r: &mut Reader<'_>, number: usize) -> Result<Option<Rule>, DecodeError> {
    if r.u32()? == 0 {
        return Ok(None);
    }
    let len = r.u32()? as usize;
    let ruleset = r.u8()?;
    if usize::from(ruleset) != number {
        return Err(DecodeError::Invalid { what: "crush ruleset", value: u64::from(ruleset) });
    }
    let kind = RuleKind(r.u8()?);
    let (min_size, max_size) = (r.u8()?, r.u8()?);
    let mut steps = Reader::new(r.raw(len.saturating_mul(12))?);
    let steps = (0..len)
        .map(|_| Ok(Step { op: StepOp(steps.u32()?), arg1: steps.i32()?, arg2: steps.i32()? }))
        .collect::<Result<_, DecodeError>>()?;
    Ok(Some(Rule { kind, min_size, max_size, steps }))
}

/// Decodes names by number. Some very old writers encoded the number in 64 bits; its upper half then
/// appears as the length of an empty string, which no real name has.
fn decode_names(r: &mut Reader<'_>) -> Result<BTreeMap<i32, Name>, DecodeError> {
    let n = r.count(8)?;
    let mut names = BTreeMap::new();
    for _ in 0..n {
        let key = r.i32()?;
        let len = match r.u32()? {
            0 => r.u32()?,
            len => len,
        };
        let name = Name::from(r.raw(len as usize)?);
        // An empty name could not be decoded again.
        if !name.is_empty() {
            names.insert(key, name);
        }
    }
    Ok(names)
}

fn encode_tunables(tunables: &Tunables, w: &mut Writer) {
    w.u32(tunables.choose_local_tries);
    w.u32(tunables.choose_local_fallback_tries);
    w.u32(tunables.choose_total_tries);
    w.u32(tunables.chooseleaf_descend_once);
    w.u8(tunables.chooseleaf_vary_r);
    w.u8(tunables.straw_calc_version);
    w.u32(tunables.allowed_bucket_algs);
    w.u8(tunables.chooseleaf_stable);
}

fn encode_choose_args(choose_args: &BTreeMap<i64, ChooseArgs>, w: &mut Writer) {
    w.count(choose_args.len());
    for (key, args) in choose_args {
        w.i64(*key);
        let replaces = |arg: &ChooseArg| !arg.weight_set.is_empty() || !arg.ids.is_empty();
        w.count(args.0.values().filter(|arg| replaces(arg)).count());
        for (index, arg) in args.0.iter().filter(|(_, arg)| replaces(arg)) {
            w.u32(*index);
            w.put(&arg.weight_set);
            w.put(&arg.ids);
        }
    }
}

fn decode_choose_args(r: &mut Reader<'_>) -> Result<ChooseArgs, DecodeError> {
    let n = r.count(12)?;
    let args = (0..n).map(|_| Ok((r.u32()?, ChooseArg { weight_set: r.get()?, ids: r.get()? })));
    args.collect::<Result<_, _>>().map(ChooseArgs)
}
