//! `loligo`: objects in Ceph pools from the command line, and a Ceph-compatible server in one process.
//!
//! Glue only: each family of commands has a module, and all work is done in the libraries.
#![forbid(unsafe_code)]
// `say!` does not panic where nobody reads.
#![warn(clippy::print_stdout)]

#[macro_use]
mod say;

mod admin;
mod args;
mod bench;
mod client;
mod config;
mod contend;
mod cores;
mod damage;
mod demo;
mod df;
mod dump;
mod export;
mod failure;
mod file;
mod fsck;
mod locks;
mod lockstat;
mod log;
mod misuse;
mod name;
mod nbd;
mod object;
mod omap;
mod ops;
mod output;
mod pool;
mod rbd;
mod serve;
mod snaps;
mod table;
mod timeline;
mod trace;
mod transfer;
mod user;
mod waits;
mod watch;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use loligo_rados::{Builder, Errno};

use args::{Cli, Command, FormatName};
use client::Client;
use failure::{Context, Failure};
use trace::Tracing;
use words::CalledAs;

/// Many small buffers are made by one thread and freed by another: what this allocator is for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => match say::end_of_reader() {
            Some(status) => std::process::exit(status),
            None => {
                eprintln!("{}", failure.line(CalledAs::now()));
                ExitCode::from(failure.status())
            }
        },
    }
}

fn run() -> Result<(), Failure> {
    cores::forbid()?;
    // Ceph's programs share options that may stand anywhere; what is left is ours.
    let (mut words, bytes) = words::texts(std::env::args_os());
    if std::env::var_os("CEPH_ARGS").is_some_and(|args| args.to_str().is_none()) {
        return Err(Failure::new("CEPH_ARGS", "is not UTF-8; give names that are not on the command line"));
    }
    let called = CalledAs::of(words.first().map(String::as_str).unwrap_or_default());
    if called != CalledAs::Loligo && words[1..].iter().any(|word| word == "--version" || word == "-v") {
        sayln!("loligo version {}, called as {}", env!("CARGO_PKG_VERSION"), called.name());
        return Ok(());
    }
    if called == CalledAs::Rbd {
        words.insert(1, "rbd".to_owned());
    }
    let mut root = Cli::command();
    root.build();
    let own = words::own(&root, &words);
    let (builder, environment) =
        Builder::new().environment_args(&own).map_err(|e| Failure::new("CEPH_ARGS", e))?;
    let builder = builder.args_beside(&mut words, &own).map_err(|e| Failure::new("command line", e))?;
    let cli = parsed(environment, (words, bytes), &root, called)?;
    if cli.format == FormatName::Prometheus && !matches!(cli.command, Command::Lockstat(_)) {
        return Err(Failure::new("--format prometheus", "only lockstat has it"));
    }
    let is_client = !matches!(
        cli.command,
        Command::Completions { .. }
            | Command::Config(_)
            | Command::Contend(_)
            | Command::Fsck { .. }
            | Command::Df { dir: Some(_) }
            | Command::Demo
            | Command::Serve(_)
            | Command::Lockstat(_)
            | Command::Nbd(_)
            | Command::Ops(_)
            | Command::Trace(_)
    );
    let of_client = [FormatName::JsonPretty, FormatName::Xml, FormatName::XmlPretty].contains(&cli.format);
    if (of_client || cli.pretty_format) && !is_client {
        let what = "--format xml, json-pretty and --pretty-format";
        return Err(Failure::new(what, "only commands that talk to a cluster have them"));
    }
    if cli.trace.is_some() && !is_client {
        return Err(Failure::new("--trace", "only commands that talk to a cluster have it"));
    }
    if !is_client && (cli.snap.is_some() || !cli.namespace.as_bytes().is_empty()) {
        return Err(Failure::new("-s and -N", "only commands that talk to a cluster have them"));
    }
    if (cli.create || cli.snapid.is_some()) && !is_client {
        return Err(Failure::new("--create and --snapid", "only commands on objects of a pool have them"));
    }
    if cli.object_locator.is_some() && !is_client {
        return Err(Failure::new("--object-locator", "only commands on objects have it"));
    }
    match &cli.command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "loligo", &mut script);
            say!("{}", String::from_utf8_lossy(&script));
            Ok(())
        }
        Command::Config(command) => config::run(command, cli.format),
        Command::Contend(options) => contend::run(options, cli.format),
        Command::Fsck { dir, repair } => fsck::run(dir, *repair, cli.format),
        Command::Df { dir: Some(dir) } => df::run(dir, cli.format),
        Command::Demo => demo::run(),
        Command::Serve(options) => serve::run(options, &cli.pool, &builder),
        Command::Lockstat(options) => lockstat::run(options, cli.format),
        Command::Nbd(command) => nbd::run(command, builder, &cli.pool, cli.format),
        Command::Ops(options) => ops::run(options, cli.format),
        Command::Trace(options) => timeline::run(options, cli.format),
        _ => client_command(&cli, builder),
    }
}

/// The command line with what `CEPH_ARGS` adds to it; where both name an option, the command line wins.
fn parsed(
    environment: Vec<String>,
    (line, bytes): (Vec<String>, usize),
    known: &clap::Command,
    called: CalledAs,
) -> Result<Cli, Failure> {
    let mut command = Cli::command().args_override_self(!environment.is_empty());
    let words = words::joined(environment, line, known);
    let arranged = words::arranged(words, known, called);
    let words = arranged.map_err(|why| Failure::of(Errno::EINVAL, "command line", why))?;
    let words = words::with_bytes(words, bytes).ok_or_else(|| {
        Failure::new("command line", "the value of an option of the configuration is not UTF-8")
    })?;
    let matches =
        command.clone().try_get_matches_from(words).unwrap_or_else(|wrong| misuse::end(&wrong, called));
    Ok(Cli::from_arg_matches(&matches)
        .unwrap_or_else(|wrong| misuse::end(&wrong.format(&mut command), called)))
}

fn client_command(cli: &Cli, builder: Builder) -> Result<(), Failure> {
    let conf = builder.load().context(|| "connect".to_owned())?;
    client::prepare(&conf)?;
    let _log = log::of_client(&conf)?;
    let admin = admin::of_client(&conf);
    let tracing = Tracing::start(cli.trace.as_deref())?;
    let observed = admin.as_ref().map(admin::OfClient::client);
    let client = Client::new(tracing.of(builder), cli).map(|client| client.observed(observed));
    let done = client.and_then(|client| traced_command(cli, client));
    let traced = tracing.finish();
    log::flush_followed();
    done.and(traced)
}

/// Whether a command is about objects that it names.
fn has_object(command: &Command) -> bool {
    !matches!(
        command,
        Command::Bench(_)
            | Command::LoadGen(_)
            | Command::Cleanup { .. }
            | Command::Rbd(_)
            | Command::File(_)
            | Command::Lspools
            | Command::Df { .. }
            | Command::Ls { .. }
            | Command::ListInconsistentPg { .. }
            | Command::ListInconsistentObj { .. }
            | Command::ListInconsistentSnapset { .. }
            | Command::Purge { .. }
            | Command::Cppool { .. }
            | Command::Export { .. }
            | Command::Import { .. }
            | Command::Lssnap
            | Command::Mksnap { .. }
            | Command::Rmsnap { .. }
    )
}

/// Whether a command works in the pool that `-p` names.
fn has_pool(command: &Command) -> bool {
    !matches!(
        command,
        Command::Rbd(_)
            | Command::Lspools
            | Command::Df { .. }
            | Command::ListInconsistentPg { .. }
            | Command::ListInconsistentObj { .. }
            | Command::ListInconsistentSnapset { .. }
            | Command::Purge { .. }
            | Command::Cppool { .. }
    )
}

fn traced_command(cli: &Cli, client: Client) -> Result<(), Failure> {
    if (cli.create || cli.snapid.is_some()) && !has_pool(&cli.command) {
        return Err(Failure::new("--create and --snapid", "only commands on objects of a pool have them"));
    }
    if cli.object_locator.is_some() && !has_object(&cli.command) {
        return Err(Failure::new("--object-locator", "only commands on objects have it"));
    }
    match &cli.command {
        Command::Bench(options) => bench::run(client, options),
        Command::LoadGen(options) => bench::load_gen::run(client, options),
        Command::Cleanup { run_name, prefix, all } => {
            bench::cleanup::run(client, run_name.as_deref(), prefix.as_deref(), *all)
        }
        Command::Rbd(command) => rbd::run(client, command).map_err(Failure::ending_with_errno),
        Command::File(command) => file::run(client, command),
        command => {
            let runtime = client::runtime(1)?;
            runtime.block_on(async {
                match command {
                    Command::Lspools
                    | Command::Df { .. }
                    | Command::Ls { .. }
                    | Command::Purge { .. }
                    | Command::Cppool { .. } => pool::run(client, command).await,
                    Command::ListInconsistentPg { scrubbed } => damage::groups(client, scrubbed).await,
                    Command::ListInconsistentObj { pgid } => damage::objects(client, pgid).await,
                    Command::ListInconsistentSnapset { pgid } => damage::snapsets(client, pgid).await,
                    _ => object::run(client, command).await,
                }
            })
        }
    }
}
