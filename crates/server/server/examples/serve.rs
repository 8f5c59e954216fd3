//! A server for trying things out: `cargo run --example serve -- [DIR] [ADDR] [POOL…]`.

use loligo_server::Server;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut builder = Server::memory();
    if let Some(dir) = args.next() {
        builder = builder.data_dir(dir);
    }
    if let Some(addr) = args.next() {
        builder = builder.mon_addr(addr.parse()?);
    }
    if std::env::var("LOLIGO_AUTH").is_ok_and(|auth| auth == "none") {
        builder = builder.auth(loligo_server::Auth::None);
    }
    let server = args.fold(builder, |builder, pool| builder.pool(pool)).start()?;
    println!(
        "ready conf={} mon={} startup_ms={:.1}",
        server.conf().display(),
        server.mon_addr(),
        server.startup().as_secs_f64() * 1000.0,
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
            why = server.failed() => eprintln!("{why}"),
        }
        server.shutdown().await;
        Ok(())
    })
}
