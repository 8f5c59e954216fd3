//! Goal: events of `tracing` become lines.

use std::fs;

use loligo_logring::{Config, RingLayer, Sink, set_option, start};
use tracing_subscriber::layer::SubscriberExt as _;

#[test]
fn events_become_lines() {
    let path = std::env::temp_dir().join(format!("logring-layer.{}", std::process::id()));
    let logger = start(Config::new(Sink::File(path.clone()))).unwrap();
    let subscriber = tracing_subscriber::registry().with(RingLayer);
    tracing::subscriber::with_default(subscriber, || {
        set_option("debug_osd", "0/0").unwrap();
        let events = || {
            tracing::error!(target: "loligo_osd::slot", code = 5, "failed");
            tracing::debug!(target: "osd", name = "a\nb", "op");
            tracing::trace!(target: "osd", "too much");
        };
        events();
        set_option("debug_osd", "10/10").unwrap();
        events();
        tracing::warn!(x = 1.5);
    });
    logger.stop();
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.splitn(3, ' ').last().unwrap()).collect();
    let expected =
        ["-1 osd: failed code=5", "-1 osd: failed code=5", "10 osd: op name=\"a\\nb\"", " 0 none:  x=1.5"];
    assert_eq!(lines, expected);
}
