//! `loligo serve`: the server until it is told to stop.

use std::time::Instant;

use loligo_server::{Auth, Server};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{AuthMethod, Serve, Store};
use crate::client;
use crate::failure::{Context, Failure};

pub(crate) fn run(options: &Serve, pools: &[String]) -> Result<(), Failure> {
    let began = Instant::now();
    let Store::Memory = options.store;
    let mut builder =
        Server::memory().data_dir(&options.data).mon_addr(options.mon_addr).auth(match options.auth {
            AuthMethod::Cephx => Auth::Cephx,
            AuthMethod::None => Auth::None,
        });
    for pool in pools {
        builder = builder.pool(pool);
    }
    if let Some(bytes) = options.capacity {
        builder = builder.memory_bytes(bytes);
    }
    if let Some(workers) = options.workers {
        builder = builder.threads(workers);
    }
    let server = builder.start().context(|| format!("serve {}", options.data.display()))?;
    println!(
        "ready conf={} mon={} startup_ms={:.1}",
        server.conf().display(),
        server.mon_addr(),
        began.elapsed().as_secs_f64() * 1e3
    );
    client::runtime(1)?.block_on(async {
        let failure = tokio::select! {
            told = told_to_stop() => told.context(|| "signals".to_owned()).err(),
            why = server.failed() => Some(Failure::new("serve", why)),
        };
        server.shutdown().await;
        failure.map_or(Ok(()), Err)
    })
}

/// Waits for SIGTERM or SIGINT.
async fn told_to_stop() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
