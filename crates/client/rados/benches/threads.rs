//! Measures many threads, each of which waits for its operations: Loligo's blocking client or librados, in
//! the same harness.
//!
//! ```text
//! cargo bench -p loligo-rados --bench threads -- [-c CONF] [ours|librados] [POOL] [THREADS] [SECONDS] [write|read] [BYTES]
//! ```
//! All threads share one client, and each has an object of its own. Run both clients in turn against the
//! same server. librados is the machine's `librados.so.2`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use libloading::Library;
use loligo_rados::{Builder, blocking};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A client that returns when the operation is done.
trait Client: Sync {
    fn write(&self, oid: &str, data: &Bytes) -> Outcome<()>;
    fn read(&self, oid: &str, len: usize) -> Outcome<()>;
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let mut args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let conf = args.iter().position(|arg| arg == "-c").and_then(|at| args.get(at + 1).cloned());
    let conf = conf.or_else(|| std::env::var("CEPH_CONF").ok());
    let builder = Builder::new().args(&mut args)?;
    let arg = |at: usize, default: &'static str| args.get(at).map_or(default, |arg| arg.as_str());
    let (pool, reads) = (arg(1, "p"), arg(4, "write") == "read");
    let (threads, seconds, bytes) = (arg(2, "1000").parse()?, arg(3, "3").parse()?, arg(5, "4096").parse()?);
    let load = Load { threads, lasts: Duration::from_secs(seconds), reads, bytes };
    match arg(0, "ours") {
        "ours" => {
            let rados = blocking::Rados::connect(builder)?;
            load.run(&Ours(rados.ioctx(pool)?))
        }
        "librados" => load.run(&Librados::open(&conf.ok_or("-c CONF, for librados")?, pool)?),
        other => Err(format!("{other} is neither ours nor librados").into()),
    }
}

struct Load {
    threads: usize,
    lasts: Duration,
    reads: bool,
    bytes: usize,
}

impl Load {
    fn run(&self, client: &dyn Client) -> Outcome<()> {
        let data = Bytes::from(vec![0xa5; self.bytes]);
        for thread in 0..self.threads {
            client.write(&name(thread), &data)?;
        }
        let ended = AtomicBool::new(false);
        let failed = AtomicBool::new(false);
        let (used, began) = (Used::now(), Instant::now());
        let mut took_us: Vec<u32> = thread::scope(|scope| {
            let work = |thread: usize| {
                let (ended, failed, data) = (&ended, &failed, &data);
                move || self.work(client, &name(thread), data, ended, failed)
            };
            let threads: Vec<_> = (0..self.threads).map(|thread| scope.spawn(work(thread))).collect();
            thread::sleep(self.lasts);
            ended.store(true, Ordering::Relaxed);
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        let (took_s, used) = (began.elapsed().as_secs_f64(), Used::now().since(&used));
        if failed.load(Ordering::Relaxed) || took_us.is_empty() {
            return Err("an operation failed".into());
        }
        took_us.sort_unstable();
        let ops = took_us.len() as f64;
        let part = |of: f64| took_us[((took_us.len() - 1) as f64 * of) as usize];
        println!(
            "{:.0} ops/s, p50 {} us, p99 {} us; per operation: {:.2} us of CPU, {:.3} context switches",
            ops / took_s,
            part(0.5),
            part(0.99),
            used.cpu_us / ops,
            used.switches / ops
        );
        Ok(())
    }

    /// Executes operations until `ended`. Returns how long each took, in microseconds.
    fn work(
        &self,
        client: &dyn Client,
        oid: &str,
        data: &Bytes,
        ended: &AtomicBool,
        failed: &AtomicBool,
    ) -> Vec<u32> {
        let mut took_us = Vec::with_capacity(1 << 12);
        while !ended.load(Ordering::Relaxed) {
            let began = Instant::now();
            let done = if self.reads { client.read(oid, self.bytes) } else { client.write(oid, data) };
            if done.is_err() {
                failed.store(true, Ordering::Relaxed);
                break;
            }
            took_us.push(began.elapsed().as_micros() as u32);
        }
        took_us
    }
}

fn name(thread: usize) -> String {
    format!("thread.{thread}")
}

/// Resources that this process has used.
struct Used {
    cpu_us: f64,
    switches: f64,
}

impl Used {
    fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: getrusage fills the struct that it is given, and RUSAGE_SELF cannot fail.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
        Self {
            cpu_us: us(usage.ru_utime) + us(usage.ru_stime),
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as f64,
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self { cpu_us: self.cpu_us - before.cpu_us, switches: self.switches - before.switches }
    }
}

struct Ours(blocking::IoCtx);

impl Client for Ours {
    fn write(&self, oid: &str, data: &Bytes) -> Outcome<()> {
        Ok(self.0.write(oid, 0, data.clone())?)
    }

    fn read(&self, oid: &str, len: usize) -> Outcome<()> {
        let got = self.0.read(oid, 0, len as u64)?;
        if got.len() == len { Ok(()) } else { Err("a short read".into()) }
    }
}

type Create = unsafe extern "C" fn(*mut *mut c_void, *const c_char) -> c_int;
type ReadConf = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;
type Connect = unsafe extern "C" fn(*mut c_void) -> c_int;
type Open = unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_void) -> c_int;
type Write = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, usize, u64) -> c_int;
type Read = unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_char, usize, u64) -> c_int;

/// librados, by its C interface (`librados.h`).
struct Librados {
    write: Write,
    read: Read,
    ioctx: *mut c_void,
    /// Keeps the functions loaded.
    _library: Library,
}

// SAFETY: librados allows several threads to use one ioctx.
unsafe impl Sync for Librados {}

impl Librados {
    fn open(conf: &str, pool: &str) -> Outcome<Self> {
        let (conf, pool) = (CString::new(conf)?, CString::new(pool)?);
        let (mut cluster, mut ioctx) = (std::ptr::null_mut::<c_void>(), std::ptr::null_mut::<c_void>());
        // SAFETY: the signatures are those of librados.h. All pointers are valid during the calls. The client
        // and the pool's handle are kept until the process ends.
        unsafe {
            let library = Library::new("librados.so.2")?;
            let create: Create = *library.get(b"rados_create")?;
            let read_conf: ReadConf = *library.get(b"rados_conf_read_file")?;
            let connect: Connect = *library.get(b"rados_connect")?;
            let open: Open = *library.get(b"rados_ioctx_create")?;
            well(create(&raw mut cluster, std::ptr::null()))?;
            well(read_conf(cluster, conf.as_ptr()))?;
            well(connect(cluster))?;
            well(open(cluster, pool.as_ptr(), &raw mut ioctx))?;
            let (write, read) = (*library.get(b"rados_write")?, *library.get(b"rados_read")?);
            Ok(Self { write, read, ioctx, _library: library })
        }
    }
}

impl Client for Librados {
    fn write(&self, oid: &str, data: &Bytes) -> Outcome<()> {
        let oid = CString::new(oid)?;
        // SAFETY: as in `open`; librados has copied or sent the bytes when it returns.
        well(unsafe { (self.write)(self.ioctx, oid.as_ptr(), data.as_ptr().cast(), data.len(), 0) })
    }

    fn read(&self, oid: &str, len: usize) -> Outcome<()> {
        let oid = CString::new(oid)?;
        let mut into = vec![0_u8; len];
        // SAFETY: as in `open`; librados writes at most `len` bytes.
        let got = unsafe { (self.read)(self.ioctx, oid.as_ptr(), into.as_mut_ptr().cast(), len, 0) };
        if usize::try_from(got) == Ok(len) { Ok(()) } else { Err(format!("rados_read: {got}").into()) }
    }
}

fn well(result: c_int) -> Outcome<()> {
    if result < 0 { Err(format!("librados: error {result}").into()) } else { Ok(()) }
}
