//! Metrics that a client reports to a metadata server: [`ClientMetrics`].
//!
//! A client sends only the kinds that the server named when it opened the session.

use bytes::Bytes;

use crate::message::macros::message_body;
use crate::{Decode, DecodeError, Encode, Reader, UTime, Writer};

message_body! {
    /// A client's metrics.
    ClientMetrics = 29 "client_metrics", version 1, compat 1, PRIORITY_DEFAULT {
        /// The metrics.
        metrics: Vec<ClientMetric>,
    }
}

/// The latency of a kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The latest one.
    pub last: UTime,
    /// The mean and the spread; absent from release 16.
    pub spread: Option<LatencySpread>,
}

/// The distribution of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySpread {
    /// The mean.
    pub mean: UTime,
    /// The sum of squared deviations from the mean.
    pub square_sum: u64,
    /// The number of requests.
    pub count: u64,
}

/// One metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMetric {
    /// Use of capabilities.
    CapInfo {
        /// Accesses that a capability allowed.
        hits: u64,
        /// Accesses that needed a request.
        misses: u64,
        /// Capabilities held.
        caps: u64,
    },
    /// Reads of objects.
    ReadLatency(Latency),
    /// Writes of objects.
    WriteLatency(Latency),
    /// Requests to metadata servers.
    MetadataLatency(Latency),
    /// Use of leases.
    DentryLease {
        /// Lookups that a lease answered.
        hits: u64,
        /// Lookups that needed a request.
        misses: u64,
        /// Names in memory.
        dentries: u64,
    },
    /// Open files.
    OpenedFiles(OfInodes),
    /// Inodes with capabilities that are in use.
    PinnedIcaps(OfInodes),
    /// Inodes that are open.
    OpenedInodes(OfInodes),
    /// Reads.
    ReadIoSizes {
        /// Their number.
        ops: u64,
        /// Their sizes together.
        bytes: u64,
    },
    /// Writes.
    WriteIoSizes {
        /// Their number.
        ops: u64,
        /// Their sizes together.
        bytes: u64,
    },
    /// A kind that this version does not know.
    Other {
        /// The kind's number.
        kind: u32,
        /// The metric: a versioned struct in its encoded form.
        encoded: Bytes,
    },
}

/// A part of the inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfInodes {
    /// The number of inodes (or of open files).
    pub part: u64,
    /// The number of all inodes in memory.
    pub total: u64,
}

impl ClientMetric {
    /// The number of the kind (`CLIENT_METRIC_TYPE_*`), which is also its bit in a session's metrics.
    pub fn kind(&self) -> u32 {
        match self {
            Self::CapInfo { .. } => 0,
            Self::ReadLatency(_) => 1,
            Self::WriteLatency(_) => 2,
            Self::MetadataLatency(_) => 3,
            Self::DentryLease { .. } => 4,
            Self::OpenedFiles(_) => 5,
            Self::PinnedIcaps(_) => 6,
            Self::OpenedInodes(_) => 7,
            Self::ReadIoSizes { .. } => 8,
            Self::WriteIoSizes { .. } => 9,
            Self::Other { kind, .. } => *kind,
        }
    }
}

impl Encode for ClientMetric {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.kind());
        let mut numbers = |numbers: &[u64]| {
            w.versioned(1, 1, |w| numbers.iter().for_each(|number| w.u64(*number)));
        };
        match self {
            Self::CapInfo { hits, misses, caps: total }
            | Self::DentryLease { hits, misses, dentries: total } => {
                numbers(&[*hits, *misses, *total]);
            }
            Self::ReadLatency(latency) | Self::WriteLatency(latency) | Self::MetadataLatency(latency) => {
                w.put(latency);
            }
            Self::OpenedFiles(of) | Self::PinnedIcaps(of) | Self::OpenedInodes(of) => {
                numbers(&[of.part, of.total]);
            }
            Self::ReadIoSizes { ops, bytes } | Self::WriteIoSizes { ops, bytes } => numbers(&[*ops, *bytes]),
            Self::Other { encoded, .. } => w.raw(encoded),
        }
    }
}

impl Decode for ClientMetric {
    const MIN_LEN: usize = 10;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = r.u32()?;
        Ok(match kind {
            0 => {
                let [hits, misses, caps] = numbers(r)?;
                Self::CapInfo { hits, misses, caps }
            }
            1 => Self::ReadLatency(r.get()?),
            2 => Self::WriteLatency(r.get()?),
            3 => Self::MetadataLatency(r.get()?),
            4 => {
                let [hits, misses, dentries] = numbers(r)?;
                Self::DentryLease { hits, misses, dentries }
            }
            5 => Self::OpenedFiles(r.get()?),
            6 => Self::PinnedIcaps(r.get()?),
            7 => Self::OpenedInodes(r.get()?),
            8 => {
                let [ops, bytes] = numbers(r)?;
                Self::ReadIoSizes { ops, bytes }
            }
            9 => {
                let [ops, bytes] = numbers(r)?;
                Self::WriteIoSizes { ops, bytes }
            }
            _ => {
                let start = r.rest();
                r.skip(2)?;
                r.blob()?;
                let encoded = Bytes::copy_from_slice(&start[..start.len() - r.remaining()]);
                Self::Other { kind, encoded }
            }
        })
    }
}

/// Reads a versioned struct that consists of `N` numbers.
fn numbers<const N: usize>(r: &mut Reader<'_>) -> Result<[u64; N], DecodeError> {
    r.versioned("client metric", 1, 1, |r, _| {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = r.u64()?;
        }
        Ok(numbers)
    })
}

impl Decode for OfInodes {
    const MIN_LEN: usize = 22;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        numbers(r).map(|[part, total]| Self { part, total })
    }
}

impl Encode for Latency {
    fn encode(&self, w: &mut Writer) {
        w.versioned(if self.spread.is_some() { 2 } else { 1 }, 1, |w| {
            w.put(&self.last);
            if let Some(spread) = &self.spread {
                w.put(&spread.mean);
                w.u64(spread.square_sum);
                w.u64(spread.count);
            }
        });
    }
}

impl Decode for Latency {
    const MIN_LEN: usize = 14;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("client metric", 1, 2, |r, version| {
            let last = r.get()?;
            let spread = if version >= 2 {
                Some(LatencySpread { mean: r.get()?, square_sum: r.u64()?, count: r.u64()? })
            } else {
                None
            };
            Ok(Self { last, spread })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Msg;

    #[test]
    fn each_kind_is_read_back() {
        let latency = Latency { last: UTime { sec: 1, nsec: 2 }, spread: None };
        let spread = LatencySpread { mean: UTime { sec: 0, nsec: 3 }, square_sum: 4, count: 5 };
        let of = OfInodes { part: 6, total: 7 };
        let metrics = vec![
            ClientMetric::CapInfo { hits: 1, misses: 2, caps: 3 },
            ClientMetric::ReadLatency(latency),
            ClientMetric::WriteLatency(Latency { spread: Some(spread), ..latency }),
            ClientMetric::MetadataLatency(latency),
            ClientMetric::DentryLease { hits: 1, misses: 2, dentries: 3 },
            ClientMetric::OpenedFiles(of),
            ClientMetric::PinnedIcaps(of),
            ClientMetric::OpenedInodes(of),
            ClientMetric::ReadIoSizes { ops: 1, bytes: 2 },
            ClientMetric::WriteIoSizes { ops: 1, bytes: 2 },
            ClientMetric::Other { kind: 16, encoded: Bytes::from_static(b"\x01\x01\x01\0\0\0x") },
        ];
        let body = ClientMetrics { metrics };
        let msg = Msg::new(&body);
        // The count; kind 0; a struct of three numbers.
        assert_eq!(&msg.front[..22], b"\x0b\0\0\0\0\0\0\0\x01\x01\x18\0\0\0\x01\0\0\0\0\0\0\0");
        assert_eq!(msg.open(), Ok(body));
    }

    #[test]
    fn a_struct_of_too_few_numbers_is_refused() {
        let body = ClientMetrics { metrics: vec![ClientMetric::ReadIoSizes { ops: 1, bytes: 2 }] };
        let mut front = Msg::new(&body).front.to_vec();
        front[4] = 0; // capabilities have three numbers
        let msg = Msg { front: front.into(), ..Msg::new(&body) };
        assert!(msg.open::<ClientMetrics>().is_err());
    }
}
