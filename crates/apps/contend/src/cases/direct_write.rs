//! A write of a file covers several objects, and each object takes some time: whether the objects are
//! written one after another.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_rados::Builder;
use loligo_server::Server;
use loligo_stripe::{Direct, Layout, ObjectNames};

use super::cephfs;
use super::clients::runtime;
use crate::measure::waited_for;
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

const POOL: &str = "contend";

/// The case.
pub(super) struct DirectWrite {
    /// Number of objects that a write covers.
    pub(super) objects: u64,
    /// One setting for each size of an object, in bytes.
    pub(super) sizes: &'static [u64],
    /// Time of an object's write in addition to the transfer of its data.
    pub(super) delay: Duration,
    /// The configuration of a cluster with a file system, which is one setting more.
    pub(super) cephfs: Option<PathBuf>,
}

impl Default for DirectWrite {
    fn default() -> Self {
        Self { objects: 16, sizes: &[4 << 20, 64 << 10], delay: Duration::from_millis(20), cephfs: None }
    }
}

impl Case for DirectWrite {
    fn name(&self) -> &'static str {
        "direct-write"
    }

    fn about(&self) -> About {
        About {
            title: "A file's write waits for its previous object",
            before: "For each object that a direct write covers: a new request, send, wait for the answer; then the next.",
            after: "loligo-stripe, and loligo-fs on CephFS: the requests for all objects of a write leave together, and the write ends with the last answer.",
            note: "An embedded server acknowledges each object's write 20 ms after it is done, whatever else it does. Carrying the data \
                   over the loopback takes processor time of both sides in both forms, and is most of the second one's time where objects \
                   are large; small objects show the waiting alone. What no form can be faster than is measured in the same rounds: one \
                   delay, and as many bytes over a loopback socket between two threads that do nothing else with them. The published figures are of one file written directly (141 MB/s) and \
                   through the page cache with a sync in the end (978 MB/s), which sends several objects at once. The row on CephFS itself is there if \
                   --cephfs names the ceph.conf of a cluster with a metadata server: this project has none.",
            source: Source {
                author: "wjin",
                title: "CephFS Kernel Client Throughput Limitation (in Chinese)",
                date: "2017-10",
                url: "https://blog.wjin.org/posts/cephfs-kernel-client-throughput-limitation.html",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let delay = self.delay.as_millis();
        let setting = |size: &u64| Setting {
            name: format!("{} objects of {} KiB, {delay} ms each", self.objects, size >> 10),
            metrics: vec![
                Metric::lower("time of a write, mean", Unit::Ms).published(978.0 / 141.0),
                Metric::lower("time of a write, longest", Unit::Ms),
                Metric::lower("time of a write, times one object's delay", Unit::Times),
                Metric::lower("one delay, and the same bytes over a bare socket", Unit::Ms),
            ],
            spread_of: "time of a write",
        };
        let on_cephfs = self.cephfs.as_ref().map(|_| cephfs::setting(self.objects));
        self.sizes.iter().map(setting).chain(on_cephfs).collect()
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        if let (Some(conf), true) = (&self.cephfs, setting == self.sizes.len()) {
            return cephfs::measure(conf, self.objects, form, time);
        }
        let server = Server::memory().pool(POOL).commit_delay(self.delay).start();
        let server = server.map_err(Error::talk("start a server"))?;
        let conf = server.conf().to_string_lossy().into_owned();
        let runtime = runtime(thread::available_parallelism().map_or(1, usize::from))?;
        let spread = runtime.block_on(async {
            let rados = Builder::new().conf_file(&conf).connect().await?;
            let layout =
                Layout::new(self.sizes[setting], 1, self.sizes[setting]).expect("the case's sizes are valid");
            let direct = Direct::new(rados.ioctx(POOL).await?, layout, ObjectNames::CephFs(1));
            let spread = self.write(&direct, form, time).await;
            rados.shutdown().await;
            spread
        });
        let spread = spread.map_err(Error::talk::<loligo_stripe::Error>("write objects"))?;
        let (mean, longest) = (spread.mean_ns() / 1e6, spread.max_ns() as f64 / 1e6);
        let delay_ms = self.delay.as_secs_f64() * 1e3;
        let carried = bare_socket(self.objects * self.sizes[setting]).map_err(Error::talk("carry bytes"))?;
        let figures = vec![mean, longest, mean / delay_ms, delay_ms + carried.as_secs_f64() * 1e3];
        Ok(Sample { figures, spread, locks: waited_for() })
    }
}

impl DirectWrite {
    /// Writes the same range repeatedly for `time`, at least once. The first write, which creates the
    /// objects, is not counted.
    async fn write(
        &self,
        direct: &Direct,
        form: Form,
        time: Duration,
    ) -> Result<Spread, loligo_stripe::Error> {
        let size = direct.layout().object_size();
        let data = Bytes::from(vec![0x6c; (self.objects * size) as usize]);
        let whole = |e: loligo_stripe::WriteError| e.source;
        direct.write(0, data.clone()).await.map_err(whole)?;
        loligo_lockstat::reset();
        let (mut spread, began) = (Spread::new(), Instant::now());
        while spread.is_empty() || began.elapsed() < time {
            let sent = Instant::now();
            match form {
                Form::After => direct.write(0, data.clone()).await.map_err(whole)?,
                Form::Before => {
                    for object in 0..self.objects {
                        let at = object * size;
                        let part = data.slice(at as usize..(at + size) as usize);
                        direct.write(at, part).await.map_err(whole)?;
                    }
                }
            }
            spread.add(sent.elapsed());
        }
        Ok(spread)
    }
}

/// Number of transfers. The result is their median.
const CARRIED: usize = 9;
/// Bytes per system call.
const PIECE_BYTES: usize = 256 << 10;

/// Measures how long `bytes` take over a loopback socket, until the receiver has acknowledged all with
/// one byte. The memory on both sides is already mapped.
fn bare_socket(bytes: u64) -> io::Result<Duration> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let receiver =
        thread::Builder::new().name("bare-socket".to_owned()).spawn(move || -> io::Result<()> {
            let (mut socket, _) = listener.accept()?;
            let mut memory = vec![1; bytes as usize];
            for _ in 0..CARRIED {
                for piece in memory.chunks_mut(PIECE_BYTES) {
                    socket.read_exact(piece)?;
                }
                socket.write_all(&[1])?;
            }
            Ok(())
        })?;
    let memory = vec![0x6c; bytes as usize];
    let mut took = Vec::with_capacity(CARRIED);
    for _ in 0..CARRIED {
        let began = Instant::now();
        for piece in memory.chunks(PIECE_BYTES) {
            sender.write_all(piece)?;
        }
        sender.read_exact(&mut [0])?;
        took.push(began.elapsed());
    }
    receiver.join().map_err(|_| io::Error::other("the receiver panicked"))??;
    took.sort_unstable();
    Ok(took[CARRIED / 2])
}
