//! `loligo nbd`: the gateway for block devices, and the commands that control it.

mod args;
mod attach;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use loligo_admin::{Admin, AdminSocket};
use loligo_conf::Conf;
use loligo_nbd::tls::{Acceptor, TlsFiles};
use loligo_nbd::{Allowed, Config, ConfigTls, Definition, Opener, Registry, Server, Spec, control};
use loligo_rados::{Builder, Rados, Waits};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::admin::{ask, show_requests};
use crate::failure::{Context, Failure};
use crate::format::FormatName;
use crate::serve::Signals;
use crate::{client, log, waits};

pub(crate) use args::NbdCommand;
use args::ServeOptions;

/// The Unix socket to listen at by default, in the user's directory for sockets, or in root's.
const SOCKET: &str = "loligo-nbd.sock";

fn default_socket() -> Result<PathBuf, Failure> {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let of_root = || rustix::process::geteuid().is_root().then(|| PathBuf::from("/run"));
    let dir = of_user.or_else(of_root).ok_or_else(|| {
        Failure::new(
            "nbd serve",
            "nowhere to listen: name --unix PATH or --listen ADDR (XDG_RUNTIME_DIR is not set)",
        )
    })?;
    Ok(dir.join(SOCKET))
}

pub(crate) fn run(
    command: &NbdCommand,
    builder: Builder,
    pools: &[String],
    format: FormatName,
) -> Result<(), Failure> {
    let (socket, mut request) = match command {
        NbdCommand::Serve(options) => return serve(options, builder, pools.last().cloned()),
        NbdCommand::Ls { socket } => return list(socket, format),
        NbdCommand::Attach { device, export, unix, connections, block_size } => {
            return attach::attach(device, export, unix.as_deref(), *connections, *block_size, format);
        }
        NbdCommand::Detach { device, force } => return attach::detach(device, *force),
        NbdCommand::Add { socket, name, spec, description } => {
            Spec::parse(spec).context(|| format!("nbd add {name}"))?;
            (socket, json!({ "prefix": "nbd add", "name": name, "spec": spec, "description": description }))
        }
        NbdCommand::Rm { socket, name, force } => {
            (socket, json!({ "prefix": "nbd rm", "name": name, "force": force }))
        }
        NbdCommand::Resize { socket, name, size } => {
            (socket, json!({ "prefix": "nbd resize", "name": name, "size": size }))
        }
        NbdCommand::Suspend { socket, name } => (socket, json!({ "prefix": "nbd suspend", "name": name })),
        NbdCommand::Resume { socket, name } => (socket, json!({ "prefix": "nbd resume", "name": name })),
    };
    request["format"] = json!("json");
    told(socket, &request).map(drop)
}

/// Sends a request to a control socket; an error reply becomes a failure.
fn told(socket: &Path, request: &Value) -> Result<String, Failure> {
    let answer = ask(socket, request)?;
    match answer.strip_prefix("ERROR: ") {
        Some(why) => Err(Failure::new(request["prefix"].as_str().unwrap_or_default(), why.trim_end())),
        None => Ok(answer),
    }
}

fn list(socket: &Path, format: FormatName) -> Result<(), Failure> {
    let answer = told(socket, &json!({ "prefix": "nbd ls", "format": "json" }))?;
    let all: Vec<Value> = serde_json::from_str(&answer).context(|| "nbd ls".to_owned())?;
    match format {
        FormatName::Json => sayln!("{answer}"),
        FormatName::Plain => {
            for device in &all {
                let text = |key: &str| device[key].as_str().unwrap_or("-").to_owned();
                let number = |key: &str| device[key].as_u64().map_or("-".to_owned(), |n| n.to_string());
                let why = device["why"].as_str().map_or_else(String::new, |why| format!("\t{why}"));
                sayln!(
                    "{}\t{}\t{}\t{} clients\t{}{why}",
                    text("name"),
                    text("state"),
                    number("size"),
                    number("clients"),
                    text("spec")
                );
            }
        }
        _ => return Err(Failure::new("--format", "text or JSON")),
    }
    Ok(())
}

/// Returns the default number of threads. Passing an image's request from one thread to another and back
/// costs more than the rest of its handling. So there are only as many threads as the machine can keep
/// busy beside the clients (their programs, the kernel's client) and the OSDs.
fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}

fn serve(options: &ServeOptions, builder: Builder, pool: Option<String>) -> Result<(), Failure> {
    let began = Instant::now();
    let plan = Plan::of(options)?;
    // If it cannot be read, adding a device that needs the cluster fails.
    let conf = builder.load().ok();
    conf.iter().try_for_each(client::prepare)?;
    let _log = conf.as_ref().map(log::of_client).transpose()?;
    let pause_max = Duration::from_micros(options.gather_us);
    let runtime = client::workers(options.workers.unwrap_or_else(default_workers), move || {
        loligo_nbd::pace::before_sleep(pause_max);
    })?;
    let handle = runtime.handle().clone();
    let served = runtime.block_on(async {
        let waits = Waits::default();
        waits::tell(waits.clone());
        let opener =
            Opener::new(builder.waits(&waits), pool).telling(move |rados| follow_log(conf.as_ref(), rados));
        let registry = Registry::new(opener, handle.clone());
        let devices = plan.devices.iter().map(|device| {
            let registry = &registry;
            async move { registry.add(device.clone()).await.context(|| format!("export {}", device.name)) }
        });
        try_join_all(devices).await?;
        let (server, places) = listen(&plan, &registry).await?;
        let control = plan.control.as_deref().map(|path| open_control(path, &registry, &handle));
        let control = control.transpose()?;
        // Created before the `ready` line is printed.
        let signals = Signals::new().context(|| "signals".to_owned())?;
        sayln!(
            "ready {} devices={} startup_ms={:.1}",
            places.join(" "),
            plan.devices.len(),
            began.elapsed().as_secs_f64() * 1e3
        );
        signals.follow().await;
        // No device is added after this.
        drop(control);
        server.close().await;
        Ok(())
    });
    log::flush_followed();
    served
}

/// Follows the monitors' settings for the log. An error there does not stop the service.
fn follow_log(conf: Option<&Conf>, rados: &Rados) {
    if let Some(Err(failure)) = conf.map(|conf| log::follow(conf, rados)) {
        eprintln!("loligo: {failure}");
    }
}

/// The devices to serve, and where to listen.
struct Plan {
    listen: Vec<std::net::SocketAddr>,
    unix: Vec<PathBuf>,
    control: Option<PathBuf>,
    tls: Option<TlsFiles>,
    devices: Vec<Definition>,
}

impl Plan {
    fn of(options: &ServeOptions) -> Result<Self, Failure> {
        let config = match &options.config {
            Some(path) => Config::load(path).context(|| format!("configuration {}", path.display()))?,
            None => Config::default(),
        };
        let mut devices = Vec::new();
        for export in &config.export {
            let spec = Spec::parse(&export.spec).context(|| format!("export {}", export.name))?;
            let spec = if export.read_only { spec.only_read() } else { spec };
            let (name, description) = (export.name.clone(), export.description.clone());
            let allow = export.allowed().context(|| format!("export {}: allow", export.name))?;
            devices.push(Definition { name, description, spec, allow });
        }
        for export in &options.export {
            let wrong =
                || Failure::new(format!("export {export}"), "is not NAME=SPEC, with a NAME that is text");
            let at = export.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            let name = str::from_utf8(&export[..at]).map_err(|_| wrong())?.to_owned();
            let spec = Spec::parse(&export[at + 1..]).context(|| format!("export {name}"))?;
            let description = String::new();
            devices.push(Definition { name, description, spec, allow: Allowed::default() });
        }
        let listen = [config.listen, options.listen.clone()].concat();
        let mut unix = [config.unix, options.unix.clone()].concat();
        if listen.is_empty() && unix.is_empty() {
            unix.push(default_socket()?);
        }
        // The command line's TLS files, if there are any, replace those of the configuration file.
        let named = options.tls();
        let tls = if named == ConfigTls::default() { config.tls } else { Some(named) };
        let tls = tls.map(ConfigTls::files).transpose().context(|| "TLS".to_owned())?;
        if let Some(device) = devices.iter().find(|device| device.allow.is_bound() && tls.is_none()) {
            let why =
                "without TLS nobody is known by a key or a certificate; name --tls-psk or --tls-client-ca";
            return Err(Failure::new(format!("export {}: allow", device.name), why));
        }
        let control = options.control.clone().or(config.control);
        Ok(Self { listen, unix, control, tls, devices })
    }
}

/// Listens at all addresses. Returns the addresses, for people and scripts.
async fn listen(plan: &Plan, registry: &Arc<Registry>) -> Result<(Server, Vec<String>), Failure> {
    let tls = plan.tls.as_ref().map(Acceptor::new).transpose().context(|| "TLS".to_owned())?;
    let mut server = Server::new(Arc::clone(registry), tls);
    let mut places = Vec::new();
    for addr in &plan.listen {
        let addr = server.listen(*addr).await.context(|| format!("listen at {addr}"))?;
        places.push(format!("listen={addr}"));
    }
    for path in &plan.unix {
        server.listen_unix(path).context(|| format!("listen at {}", path.display()))?;
        places.push(format!("unix={}", path.display()));
    }
    Ok((server, places))
}

fn open_control(path: &Path, registry: &Arc<Registry>, runtime: &Handle) -> Result<AdminSocket, Failure> {
    let admin = Admin::new();
    control::register(&admin, registry, runtime);
    let observed = Arc::clone(registry);
    show_requests(&admin, move || observed.observe());
    AdminSocket::open(path, admin).context(|| format!("control socket {}", path.display()))
}
