//! Many connections send requests to objects in few placement groups: latency of a request, and waits
//! for the PG.
//!
//! Each connection keeps some 4 KiB writes in flight and sends the next one when a reply arrives.
//! Messenger, decoding, checks, execution, store and reply are the product's in both forms. The forms
//! differ in how a request gets from the connection that read it to its placement group.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use loligo_msgr::Dispatcher;
use loligo_store::memory::MemoryStore;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{OsdFlags, OsdOp};
use smallvec::smallvec;
use tokio::runtime::Runtime;

use super::clients::{self, Asks, Driven, runtime};
use super::queued::{PG, Queued, Workers};
use crate::measure::Waits;
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

const WRITE_BYTES: usize = 4096;
/// Far more than the case's objects need.
const STORE_BYTES: u64 = 1 << 30;

/// The case.
pub(super) struct PgSlot {
    /// Number of connections.
    pub(super) connections: usize,
    /// Requests that each connection keeps in flight.
    pub(super) in_flight: u64,
    /// One setting for each number of placement groups.
    pub(super) pgs: &'static [u32],
}

impl Default for PgSlot {
    fn default() -> Self {
        Self { connections: 64, in_flight: 4, pgs: &[1, 4] }
    }
}

impl Case for PgSlot {
    fn name(&self) -> &'static str {
        "pg-slot"
    }

    fn about(&self) -> About {
        About {
            title: "Threads queue on one placement group's lock",
            before: "A request goes into its shard's queue; the shard's two threads each take one and lock the placement group \
                     to execute it, so one thread waits for the other.",
            after: "loligo-osd's PG slot, a lane: the thread that read the request executes it if no thread is executing \
                    there, and else leaves it to the thread that is.",
            note: "Part of the gain is that no thread is woken between reading and executing. The source gives no figure for \
                   this fix alone, but up to 90 % less tail latency for all of its six.",
            source: Source {
                author: "Didi Cloud Storage",
                title: "Optimizing locks in Didi's Ceph (in Chinese), 4.1: less competition for the PG lock",
                date: "2020-09-08",
                url: "https://www.infoq.cn/article/Jv3GygMyVBgedrN84rAT",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let setting = |pgs: &u32| Setting {
            name: format!("{} connections, {pgs} PG{}", self.connections, if *pgs == 1 { "" } else { "s" }),
            metrics: vec![
                Metric::lower("latency, p99", Unit::Us),
                Metric::lower("latency, p50", Unit::Us),
                Metric::lower("latency, longest", Unit::Us),
                Metric::higher("requests", Unit::PerS),
                Metric::lower("waits for a PG per million requests", Unit::Count),
                Metric::lower("total wait for PGs per million requests", Unit::Ms),
            ],
            spread_of: "latency of a request",
        };
        self.pgs.iter().map(setting).collect()
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        let pgs = self.pgs[setting];
        let osd = clients::osd(Arc::new(MemoryStore::new(STORE_BYTES)), pgs)?;
        let server_rt = runtime(thread::available_parallelism().map_or(1, usize::from))?;
        match form {
            Form::Before => {
                let queued = Arc::new(Queued::new(osd, pgs));
                let workers = Workers::start(&queued, &server_rt)?;
                let measured = self.drive(&server_rt, queued, &[PG.name()], time, pgs);
                workers.stop()?;
                measured
            }
            Form::After => self.drive(&server_rt, osd, &["osd."], time, pgs),
        }
    }
}

impl PgSlot {
    /// Serves with `dispatcher` and drives the connections for `time`. `guards` names the lock classes
    /// that guard a PG.
    fn drive(
        &self,
        server_rt: &Runtime,
        dispatcher: Arc<dyn Dispatcher>,
        guards: &[&str],
        time: Duration,
        pgs: u32,
    ) -> Result<Sample, Error> {
        let asks = (0..self.connections as u32)
            .map(|number| Asks { in_flight: self.in_flight, request: request(number, pgs) })
            .collect();
        sample(clients::drive(server_rt, dispatcher, asks, time)?, guards)
    }
}

fn sample(driven: Driven, guards: &[&str]) -> Result<Sample, Error> {
    let Driven { latency: of_each, took, locks } = driven;
    let mut latency = Spread::new();
    of_each.iter().for_each(|of_one| latency.merge(of_one));
    if latency.is_empty() {
        return Err(Error::NothingMeasured);
    }
    let requests = latency.count();
    let waits = Waits::of(&locks, guards);
    let us = |ns: u64| ns as f64 / 1e3;
    let figures = vec![
        us(latency.quantile_ns(0.99)),
        us(latency.quantile_ns(0.5)),
        us(latency.max_ns()),
        requests as f64 / took.as_secs_f64(),
        waits.count_per_million(requests),
        waits.total_ms_per_million(requests),
    ];
    Ok(Sample { figures, spread: latency, locks })
}

/// The requests of connection `number`: writes to its own object, in one of the PGs.
fn request(number: u32, pgs: u32) -> Box<dyn Fn(u64) -> Msg + Send + Sync> {
    let ops = smallvec![OsdOp::write(0, Bytes::from(vec![0x6c; WRITE_BYTES]))];
    let flags = OsdFlags::WRITE | OsdFlags::ONDISK;
    // The number of PGs is a power of two, so the low bits of the object's hash select the PG.
    let op = clients::request(format!("object {number}"), number, number % pgs, ops, flags);
    Box::new(move |_| Msg::new(&op))
}
