//! Some threads open, read and close many devices while another thread changes one device at a time:
//! waits of the threads.
//!
//! The devices and the operations on them are the product's in both forms. The forms differ in which
//! operations on devices exclude each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use futures_util::FutureExt as _;
use loligo_lockstat::{Class, Mutex};
use loligo_nbd::proto::{Can, Io};
use loligo_nbd::{Attached, Backend, Memory, Opener, Registry, Started, Work};
use tokio::runtime::Runtime;

use super::clients::runtime;
use crate::measure::{Waits, waited_for};
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

/// The lock of the "before".
static CONTROL: Class = Class::new("contend.device_control");

/// Prefix of the classes of the product's locks, whose waits count in both forms.
const PRODUCT: &str = "nbd.";

const DEVICE_BYTES: u64 = 64 << 10;
const READ_BYTES: u32 = 4096;
/// Times of disk operations, from fast to busy disks.
const STEPS: [Duration; 3] =
    [Duration::from_micros(100), Duration::from_millis(1), Duration::from_millis(20)];

/// The case.
pub(super) struct Devices {
    /// Number of devices.
    pub(super) devices: usize,
    /// Number of threads that use them.
    pub(super) workers: usize,
    /// One setting for each duration of a step of a change.
    pub(super) steps: &'static [Duration],
}

impl Default for Devices {
    fn default() -> Self {
        Self { devices: 69, workers: 8, steps: &STEPS }
    }
}

impl Case for Devices {
    fn name(&self) -> &'static str {
        "devices"
    }

    fn about(&self) -> About {
        About {
            title: "Opening any device waits for one lock that all of them share",
            before: "One control lock: each open, close, addition, change or removal of any device holds it to its end.",
            after: "loligo-nbd's registry, in which a device is found without a lock, and a lane for each device, in which it is changed.",
            note: "A thread adds a device, changes it and removes it, again and again; each of the steps waits as long as the setting says, as it would for a disk. The published 18.8 s were \
                   those of one boot with 69 devices and 8 processors; with a lock for each device there were none.",
            source: Source {
                author: "Pavel Tatashin",
                title: "[PATCH v1 0/1] scale loop device lock",
                date: "2020-07-17",
                url: "https://lore.kernel.org/lkml/20200717205322.127694-1-pasha.tatashin@soleen.com/",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let setting = |step: &Duration| Setting {
            name: format!(
                "{} devices, {} workers, steps of {} ms",
                self.devices,
                self.workers,
                step.as_secs_f64() * 1e3
            ),
            metrics: vec![
                Metric::lower("total wait per million opens", Unit::S),
                Metric::lower("open, p99", Unit::Us),
                Metric::lower("open, longest", Unit::Us),
                Metric::higher("opens", Unit::PerS),
            ],
            spread_of: "time to open a device",
        };
        self.steps.iter().map(setting).collect()
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        let runtime = runtime(thread::available_parallelism().map_or(1, usize::from))?;
        let registry = Registry::new(Opener::local(), runtime.handle().clone());
        let devices = Table { registry, runtime, step: self.steps[setting] };
        for number in 0..self.devices {
            devices.add(&name(number));
        }
        match form {
            Form::Before => {
                let control = Mutex::new(&CONTROL, ());
                self.storm(&Locked { devices, control }, time)
            }
            Form::After => self.storm(&devices, time),
        }
    }
}

/// Operations on devices, as one form does them.
trait Control: Sync {
    /// Returns `None` while the device is being removed.
    fn open(&self, name: &str) -> Option<Attached>;
    fn close(&self, device: Attached);
    fn add(&self, name: &str);
    fn change(&self, name: &str);
    fn remove(&self, name: &str);
}

/// The "after": the product's registry.
struct Table {
    registry: Arc<Registry>,
    runtime: Runtime,
    step: Duration,
}

impl Control for Table {
    fn open(&self, name: &str) -> Option<Attached> {
        // Opening a ready device does not wait.
        self.registry.attach(name).now_or_never()?.ok()
    }

    fn close(&self, device: Attached) {
        drop(device);
    }

    fn add(&self, name: &str) {
        let memory = Memory::new(DEVICE_BYTES, false);
        // The name is free.
        let _ = self.registry.add_open(name, Box::new(Slow { memory, step: self.step }));
    }

    fn change(&self, name: &str) {
        let _ = self.runtime.block_on(self.registry.resize(name, DEVICE_BYTES));
    }

    fn remove(&self, name: &str) {
        let _ = self.runtime.block_on(self.registry.remove(name, true));
    }
}

/// The "before": the same operations under one lock.
struct Locked {
    devices: Table,
    control: Mutex<()>,
}

impl Control for Locked {
    fn open(&self, name: &str) -> Option<Attached> {
        let _control = self.control.lock();
        self.devices.open(name)
    }

    fn close(&self, device: Attached) {
        let _control = self.control.lock();
        self.devices.close(device);
    }

    fn add(&self, name: &str) {
        let _control = self.control.lock();
        self.devices.add(name);
    }

    fn change(&self, name: &str) {
        let _control = self.control.lock();
        self.devices.change(name);
    }

    fn remove(&self, name: &str) {
        let _control = self.control.lock();
        self.devices.remove(name);
    }
}

/// Memory whose resize and close take the time of a step.
struct Slow {
    memory: Memory,
    step: Duration,
}

impl Slow {
    fn after_a_step(&self, work: Work) -> Work {
        let step = self.step;
        Box::pin(async move {
            tokio::time::sleep(step).await;
            work.await
        })
    }
}

impl Backend for Slow {
    fn kind(&self) -> &'static str {
        "slow"
    }

    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn can(&self) -> Can {
        self.memory.can()
    }

    fn start(&self, io: Io) -> Started {
        self.memory.start(io)
    }

    fn read_now(&self, offset: u64, len: u32, out: &mut BytesMut) -> bool {
        self.memory.read_now(offset, len, out)
    }

    fn resize(&self, size: u64) -> Work {
        self.after_a_step(self.memory.resize(size))
    }

    fn close(&self) -> Work {
        self.after_a_step(self.memory.close())
    }
}

impl Devices {
    fn storm(&self, control: &impl Control, time: Duration) -> Result<Sample, Error> {
        loligo_lockstat::reset();
        let ended = AtomicBool::new(false);
        let (ended, began) = (&ended, Instant::now());
        let opens = thread::scope(|scope| {
            let changer = scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    control.add("more");
                    control.change("more");
                    control.remove("more");
                }
            });
            let workers: Vec<_> =
                (0..self.workers).map(|n| scope.spawn(move || self.work(control, n, began, time))).collect();
            let mut opens = Spread::new();
            let mut all_well = true;
            for worker in workers {
                match worker.join() {
                    Ok(of_one) => opens.merge(&of_one),
                    Err(_) => all_well = false,
                }
            }
            ended.store(true, Ordering::Relaxed);
            all_well &= changer.join().is_ok();
            if all_well { Ok(opens) } else { Err(Error::talk("a thread")("it panicked")) }
        })?;
        if opens.is_empty() {
            return Err(Error::NothingMeasured);
        }
        let took = began.elapsed();
        let locks = waited_for();
        let figures = vec![
            Waits::of(&locks, &[CONTROL.name(), PRODUCT]).total_ms_per_million(opens.count()) / 1e3,
            opens.quantile_ns(0.99) as f64 / 1e3,
            opens.max_ns() as f64 / 1e3,
            opens.count() as f64 / took.as_secs_f64(),
        ];
        Ok(Sample { figures, spread: opens, locks })
    }

    /// Opens, reads and closes one device after another.
    fn work(&self, control: &impl Control, number: usize, began: Instant, time: Duration) -> Spread {
        let names: Vec<String> = (0..self.devices).map(name).collect();
        let mut opens = Spread::new();
        let mut into = BytesMut::new();
        let mut next = number;
        while began.elapsed() < time {
            let asked = Instant::now();
            if let Some(device) = control.open(&names[next % names.len()]) {
                opens.add(asked.elapsed());
                into.clear();
                device.read_now(0, READ_BYTES, &mut into);
                control.close(device);
            }
            next += self.workers + 1;
        }
        opens
    }
}

fn name(number: usize) -> String {
    format!("device {number}")
}
