//! `loligo`: objects in Ceph pools from the command line, and a Ceph-compatible server in one process.
//!
//! The binary only dispatches: each family of commands has a module, and the libraries do the work.
#![forbid(unsafe_code)]
// `say!` does not panic when the reader of standard output is gone; `println!` does.
#![warn(clippy::print_stdout)]

#[macro_use]
mod say;

mod admin;
mod args;
mod bench;
mod carried;
mod client;
mod config;
mod contend;
mod contents;
mod cores;
mod damage;
mod demo;
mod df;
mod dump;
mod export;
mod failure;
mod file;
mod format;
mod fs;
mod fsck;
mod groups;
mod in_flight;
mod locks;
mod lockstat;
mod log;
mod misuse;
mod mount;
mod name;
mod nbd;
mod note;
mod object;
mod omap;
mod ops;
mod options;
mod output;
mod ping;
mod pool;
mod rbd;
mod run;
mod serve;
mod server;
mod snaps;
mod stdio;
mod table;
mod timeline;
mod trace;
mod transfer;
mod user;
mod values;
mod waits;
mod watch;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use loligo_rados::{Builder, Errno};

use args::{Cli, Command};
use client::Client;
use df::Df;
use failure::{Context, Failure};
use options::Options;
use trace::Tracing;
use words::CalledAs;

/// Many small buffers are allocated by one thread and freed by another, which this allocator does
/// cheaply.
#[global_allocator]
static HEAP: loligo_heap::Heap = loligo_heap::Heap;

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
    // Ceph's programs share options that may appear anywhere on the command line; the remaining words
    // are ours.
    let (mut words, bytes) = words::texts(std::env::args_os());
    if std::env::var_os("CEPH_ARGS").is_some_and(|args| args.to_str().is_none()) {
        return Err(Failure::new("CEPH_ARGS", "is not UTF-8; give names that are not on the command line"));
    }
    let called = CalledAs::of(words.first().map(String::as_str).unwrap_or_default());
    if called != CalledAs::Loligo && words[1..].iter().any(|word| word == "--version" || word == "-v") {
        sayln!("loligo version {}, called as {}", env!("CARGO_PKG_VERSION"), called.name());
        return Ok(());
    }
    match called {
        CalledAs::Rbd => words.insert(1, "rbd".to_owned()),
        CalledAs::Mount => words.insert(1, "mount".to_owned()),
        CalledAs::Loligo | CalledAs::Rados => {}
    }
    // Before the first memory is used. A command with an argument of this name runs as well.
    if words.iter().any(|word| word == "mount") {
        mount::take_small_pages();
    }
    let (cli, builder) = command_line(words, bytes, called)?;
    carry_out(&cli, builder)
}

/// Reads the command line. The description of all commands takes some megabytes, which go when this returns.
fn command_line(mut words: Vec<String>, bytes: usize, called: CalledAs) -> Result<(Cli, Builder), Failure> {
    let mut root = groups::offering(Cli::command());
    root.build();
    let own = words::own(&root, &words);
    let (builder, environment) =
        Builder::new().environment_args(&own).map_err(|e| Failure::new("CEPH_ARGS", e))?;
    let builder = builder.args_beside(&mut words, &own).map_err(|e| Failure::new("command line", e))?;
    Ok((parsed(environment, (words, bytes), &root, called)?, builder))
}

/// Shared options that stock programs do not have, or refuse where they have no effect.
const NOT_OF_STOCK: [&str; 4] = ["create", "object_locator", "snapid", "trace"];

/// Parses the command line together with the words of `CEPH_ARGS`. An option on the command line wins
/// over the same option in `CEPH_ARGS`.
fn parsed(
    environment: Vec<String>,
    (line, bytes): (Vec<String>, usize),
    known: &clap::Command,
    called: CalledAs,
) -> Result<Cli, Failure> {
    let mut command = groups::offering(Cli::command()).args_override_self(!environment.is_empty());
    let for_all = words::options_in(&environment, known);
    let words = words::joined(environment, line, known);
    let arranged = words::arranged(words, known, called);
    let words = arranged.map_err(|why| Failure::of(Errno::EINVAL, "command line", why))?;
    let words = words::with_bytes(words, bytes).ok_or_else(|| {
        Failure::new("command line", "the value of an option of the configuration is not UTF-8")
    })?;
    let matches =
        command.clone().try_get_matches_from(words).unwrap_or_else(|wrong| misuse::end(&wrong, called));
    // Stock programs accept options that have no effect, so under their names such options are no error.
    // Options in `CEPH_ARGS` are meant for all commands, so they are no error either.
    let by_stock = |id: &str| called != CalledAs::Loligo && !NOT_OF_STOCK.contains(&id);
    let is_let_pass = |id: &str| by_stock(id) || for_all.contains(id);
    groups::check(&command, &matches, is_let_pass)?;
    Ok(Cli::from_arg_matches(&matches)
        .unwrap_or_else(|wrong| misuse::end(&wrong.format(&mut command), called)))
}

/// Dispatches each command to its family.
fn carry_out(cli: &Cli, builder: Builder) -> Result<(), Failure> {
    let options = &cli.options;
    let format = options.format;
    match &cli.command {
        Command::Object(command) => in_cluster(options, builder, |client| object::run(client, command)),
        Command::Omap(command) => in_cluster(options, builder, |client| omap::run(client, command)),
        Command::Snap(command) => in_cluster(options, builder, |client| snaps::run(client, command)),
        Command::Watch(command) => in_cluster(options, builder, |client| watch::run(client, command)),
        Command::Lock(command) => in_cluster(options, builder, |client| locks::run(client, command)),
        Command::Pool(command) => in_cluster(options, builder, |client| pool::run(client, command)),
        Command::Damage(command) => in_cluster(options, builder, |client| damage::run(client, command)),
        Command::Df(Df { dir: Some(dir) }) => df::of_dir(dir, options),
        Command::Df(Df { dir: None }) => in_cluster(options, builder, df::run),
        Command::File(command) => in_cluster(options, builder, |client| file::run(client, command)),
        Command::Fs(args) => in_cluster(options, builder, |client| fs::run(client, args)),
        Command::Mount(args) => mount::run(args, builder, options),
        Command::Rbd(command) => in_cluster(options, builder, |client| {
            rbd::run(client, command).map_err(Failure::ending_with_errno)
        }),
        Command::Nbd(command) => nbd::run(command, builder, &options.pool, format),
        Command::Bench(bench) => in_cluster(options, builder, |client| bench::run(client, bench)),
        Command::Cleanup(what) => in_cluster(options, builder, |client| bench::cleanup::run(client, what)),
        Command::LoadGen(load) => in_cluster(options, builder, |client| bench::load_gen::run(client, load)),
        Command::Ping(ping) => in_cluster(options, ping.patient(builder), |client| ping::run(client, ping)),
        Command::Serve(server) => serve::run(server, &options.pool, &builder),
        Command::Server(command) => server::run(command, &builder),
        Command::Fsck(what) => fsck::run(what, format),
        Command::Demo => demo::run(),
        Command::Run(what) => run::run(what, &builder),
        Command::Lockstat(whom) => lockstat::run(whom, format),
        Command::Ops(whom) => ops::run(whom, format),
        Command::Trace(what) => timeline::run(what, format),
        Command::Contend(what) => contend::run(what, format),
        Command::Config(command) => config::run(command, format),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            let mut offered = groups::offered_only(Cli::command());
            clap_complete::generate(*shell, &mut offered, "loligo", &mut script);
            say!("{}", String::from_utf8_lossy(&script));
            Ok(())
        }
        Command::Manual { dir } => {
            let offered = groups::offered_only(Cli::command());
            clap_mangen::generate_to(offered, dir).context(|| format!("manual {}", dir.display()))
        }
    }
}

/// Runs a client command, with a log, an admin socket and a trace if they are configured.
fn in_cluster(
    options: &Options,
    builder: Builder,
    command: impl FnOnce(Client) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let conf = builder.load().context(|| "connect".to_owned())?;
    client::prepare(&conf)?;
    let _log = log::of_client(&conf)?;
    let admin = admin::of_client(&conf);
    let tracing = Tracing::start(options.trace.as_deref())?;
    let observed = admin.as_ref().map(admin::OfClient::client);
    let client = Client::new(tracing.of(builder), options).map(|client| client.observed(observed));
    let done = client.and_then(command);
    let traced = tracing.finish();
    log::flush_followed();
    done.and(traced)
}
