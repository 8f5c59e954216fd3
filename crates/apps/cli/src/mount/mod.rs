//! `loligo mount`: a directory of CephFS in the kernel's tree.

mod args;
mod daemon;
mod options;
mod secret;

use std::path::Path;
use std::time::{Duration, Instant};

use loligo_fs::{FileSystem, MountOptions};
use loligo_fuse::{Mount, Unmounter};
use loligo_rados::{Builder, Rados, Waits};
use rustix::thread::disable_transparent_huge_pages;
use tokio::runtime::Runtime;

use crate::admin;
use crate::client;
use crate::failure::{Context, Failure};
use crate::log;
use crate::options::Options;
use crate::serve::Signals;
use crate::trace::Tracing;
use crate::waits;

pub(crate) use self::args::MountArgs;
use self::options::{Chosen, Source};

/// Options of the configuration that are true or false.
const SWITCHES: [&str; 5] =
    ["client_dirsize_rbytes", "client_oc", "client_permissions", "client_quota", "client_quota_df"];
/// How long programs that use files of the mount may go on after a signal, before they lose them.
const GRACE: Duration = Duration::from_secs(1);

/// The threads that work for a mount: one for each processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Threads {
    /// They take requests from the kernel, and answer at once what is known.
    takers: usize,
    /// They go on with requests that wait, and speak with the servers.
    workers: usize,
}

impl Threads {
    fn of(processors: usize) -> Self {
        let takers = if processors < 4 { 1 } else { 2 };
        Self { takers, workers: processors.saturating_sub(takers).max(1) }
    }

    fn here() -> Self {
        Self::of(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }
}

/// What is mounted where.
struct Plan<'a> {
    source: Source,
    chosen: Chosen,
    /// The file system's name, if one is named on the command line.
    fs: Option<String>,
    dir: &'a Path,
    /// What `mount` and `df` show.
    shown: String,
}

/// Has the kernel give this process, and the one that serves a mount in the background, small pages alone.
/// The allocator asks for huge ones: then each thread takes some megabytes, and new pages often wait until
/// the kernel has moved others out of their way.
pub(crate) fn take_small_pages() {
    // A kernel that does not know the call gives what it gives.
    let _ = disable_transparent_huge_pages(true);
}

pub(crate) fn run(args: &MountArgs, builder: Builder, options: &Options) -> Result<(), Failure> {
    let plan = Plan::of(args)?;
    secret::hide()?;
    if !args.foreground && !daemon::serves() {
        return daemon::start();
    }
    let began = Instant::now();
    let builder = plan.applied_to(builder);
    let conf = builder.load().context(|| "mount".to_owned())?;
    client::prepare(&conf)?;
    check(&conf).context(|| "mount".to_owned())?;
    let _log = log::of_client(&conf)?;
    let admin = admin::of_client(&conf);
    let tracing = Tracing::start(options.trace.as_deref())?;
    let runtime = client::workers(Threads::here().workers, || {})?;
    let served = runtime.block_on(async {
        let waits = Waits::default();
        waits::tell(waits.clone());
        let rados = tracing.of(builder).waits(&waits).connect().await.context(|| "connect".to_owned())?;
        log::follow(&conf, &rados)?;
        if let Some(admin) = &admin {
            let _ = admin.client().set(rados.observe());
        }
        let fs = FileSystem::mount(&rados, plan.client_options(&conf)).await.context(|| plan.what())?;
        Ok::<_, Failure>((rados, fs))
    });
    let (rados, fs) = served?;
    let done = serve(&plan, &runtime, (&rados, fs), &conf, (args.foreground, began));
    log::flush_followed();
    done.and(tracing.finish())
}

/// Refuses values of the configuration that would be taken for others.
fn check(conf: &loligo_conf::Conf) -> Result<(), loligo_conf::ConfError> {
    for option in SWITCHES {
        conf.bool(option, true)?;
    }
    conf.size("client_oc_size", MountOptions::CACHE_BYTES).map(drop)
}

/// Mounts, and serves until the end.
fn serve(
    plan: &Plan<'_>,
    runtime: &Runtime,
    (rados, fs): (&Rados, FileSystem),
    conf: &loligo_conf::Conf,
    (stays, began): (bool, Instant),
) -> Result<(), Failure> {
    // Signals are queued from here on.
    let signals = runtime.block_on(async { Signals::new() }).context(|| "signals".to_owned())?;
    let mount = Mount::new(&fs, runtime.handle(), &plan.kernel_options(conf));
    let served = mount.context(|| plan.what()).and_then(|mut mount| {
        let unmounter = mount.unmounter();
        match stays {
            true => sayln!(
                "ready dir={} fs={} startup_ms={:.1}",
                plan.dir.display(),
                fs.name(),
                began.elapsed().as_secs_f64() * 1e3
            ),
            false => daemon::ready()?,
        }
        loligo_heap::rest();
        runtime.block_on(until_the_end(&mount, unmounter, signals)).context(|| plan.what())?;
        mount.close();
        Ok(())
    });
    let ended = runtime.block_on(async {
        let ended = fs.unmount().await.context(|| format!("unmount {}", plan.dir.display()));
        rados.shutdown().await;
        ended
    });
    served.and(ended)
}

/// Waits until the directory is unmounted, or a signal asks for it.
async fn until_the_end(
    mount: &Mount,
    mut unmounter: Unmounter,
    signals: Signals,
) -> Result<(), loligo_fuse::MountError> {
    tokio::select! {
        ended = mount.ended() => return ended,
        () = signals.follow() => {}
    }
    let detached = tokio::task::spawn_blocking(move || unmounter.detach()).await;
    // Programs that have files open may go on for a moment.
    let _ = tokio::time::timeout(GRACE, mount.ended()).await;
    detached.unwrap_or(Ok(()))
}

impl<'a> Plan<'a> {
    fn of(args: &'a MountArgs) -> Result<Self, Failure> {
        let chosen = Chosen::of(&args.options)?;
        let (source, dir) = match args.places.as_slice() {
            [source, dir] => {
                let text = source.to_str();
                let text = text.ok_or_else(|| Failure::new("mount", "the source's name is not UTF-8"))?;
                let source = Source::parse(text).map_err(|why| Failure::new(format!("mount {text}"), why))?;
                (source, dir)
            }
            [dir] => (Source::default(), dir),
            _ => return Err(Failure::new("mount", "name a directory")),
        };
        let fs = source.fs.clone().or_else(|| chosen.fs.clone());
        let (name, path) = (fs.as_deref().unwrap_or_default(), source.path.as_deref().unwrap_or("/"));
        let shown = format!("{name}:{path}");
        Ok(Self { source, chosen, fs, dir, shown })
    }

    /// Names the mount in messages.
    fn what(&self) -> String {
        format!("mount {} at {}", self.shown, self.dir.display())
    }

    /// Returns the client that the options ask for.
    fn applied_to(&self, builder: Builder) -> Builder {
        let Chosen { conf, settings, name, .. } = &self.chosen;
        let builder = conf.iter().fold(builder, |builder, file| builder.conf_file(file));
        let name = self.source.name.as_ref().or(name.as_ref());
        let builder =
            name.iter().fold(builder, |builder, id| builder.name(loligo_wire::EntityName::client(id)));
        let builder = settings.iter().fold(builder, |builder, (option, value)| builder.set(option, value));
        secret::hidden().iter().fold(builder, |builder, key| builder.set("key", key))
    }

    /// Returns how the client mounts.
    fn client_options(&self, conf: &loligo_conf::Conf) -> MountOptions {
        let in_conf = |names: &[&str]| names.iter().find_map(|option| conf.text(option));
        let fs = self.fs.clone().or_else(|| in_conf(&["client_fs", "client_mds_namespace"]));
        let path = self.source.path.clone().or_else(|| in_conf(&["client_mountpoint"]));
        let dir = self.dir.canonicalize().unwrap_or_else(|_| self.dir.to_owned());
        let mut options = MountOptions::new()
            .root(path.as_deref().unwrap_or("/"))
            .owner(rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
            .metadata("mount_point", &dir.to_string_lossy())
            // Otherwise the kernel checks them.
            .permissions(!self.kernel_checks(conf));
        if let Some(fs) = fs.filter(|fs| !fs.is_empty()) {
            options = options.named(&fs);
        }
        if !conf.bool("client_oc", true).unwrap_or(true) {
            options = options.cache(0);
        } else if let Ok(bytes) = conf.size("client_oc_size", MountOptions::CACHE_BYTES) {
            options = options.cache(bytes);
        }
        match self.chosen.acls {
            Some(count) => options.acls(count),
            None => options,
        }
    }

    /// Returns how the kernel mounts.
    fn kernel_options(&self, conf: &loligo_conf::Conf) -> loligo_fuse::MountOptions {
        let chosen = &self.chosen;
        let of_conf = |option| conf.bool(option, true).unwrap_or(true);
        let by_type = || conf.text("client_acl_type").is_some_and(|kind| kind == "posix_acl");
        loligo_fuse::MountOptions::new(self.dir)
            .source(&self.shown)
            .read_only(chosen.read_only)
            .no_atime(chosen.no_atime)
            .no_exec(chosen.no_exec)
            .devices(chosen.devices)
            .suid(chosen.suid)
            .allow_other(chosen.allow_other.unwrap_or_else(|| rustix::process::geteuid().is_root()))
            .default_permissions(self.kernel_checks(conf))
            .dir_sizes_recursive(chosen.recursive_sizes.unwrap_or_else(|| of_conf("client_dirsize_rbytes")))
            .kernel_cache(!chosen.no_kernel_cache)
            .acls(chosen.acls.unwrap_or_else(by_type))
            .threads(Threads::here().takers)
    }

    /// Returns `true` if the kernel checks permissions, and not this program.
    fn kernel_checks(&self, conf: &loligo_conf::Conf) -> bool {
        self.chosen.kernel_checks.unwrap_or_else(|| conf.bool("client_permissions", true).unwrap_or(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_has_one_thread() {
        for (processors, takers, workers) in [(1, 1, 1), (2, 1, 1), (3, 1, 2), (4, 2, 2), (64, 2, 62)] {
            assert_eq!(Threads::of(processors), Threads { takers, workers }, "{processors} processors");
        }
    }
}
