//! How much a command has transferred: the sum over many files, the summary, and the progress bar.

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::args::Format;
use crate::failure::Failure;

/// The amount transferred.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Carried {
    /// Prints the summary for programs; people have seen the progress bar.
    pub(crate) fn show(self, format: Format, begun: Instant, verified: bool) {
        if format != Format::Plain {
            let Self { files, bytes } = self;
            let seconds = begun.elapsed().as_secs_f64();
            let all = json!({"files": files, "bytes": bytes, "seconds": seconds, "verified": verified});
            format.print("copied", "item", &all);
        }
    }
}

/// Transfers many files, `parallel` at a time. A failed file does not stop the others. Each failure is
/// printed, and the error at the end tells their number.
pub(crate) async fn carry_all<F>(
    files: impl Iterator<Item = F>,
    parallel: u16,
    what: &str,
) -> Result<Carried, Failure>
where
    F: Future<Output = Result<u64, Failure>>,
{
    let (mut carried, mut failed) = (Carried::default(), 0);
    let mut ended = std::pin::pin!(stream::iter(files).buffer_unordered(parallel.into()));
    while let Some(one) = ended.next().await {
        match one {
            Ok(bytes) => {
                carried.files += 1;
                carried.bytes += bytes;
            }
            Err(failure) => {
                failed += 1;
                eprintln!("loligo: {failure}");
            }
        }
    }
    if failed > 0 {
        return Err(Failure::new(what, format!("{failed} of {} files failed", failed + carried.files)));
    }
    Ok(carried)
}

/// Creates a progress bar, which is drawn on a terminal only. It is hidden for small amounts.
pub(crate) fn progress(bytes: Option<u64>) -> ProgressBar {
    match bytes {
        Some(bytes) if bytes <= 16 << 20 => ProgressBar::hidden(),
        Some(bytes) => {
            let style = "{msg}{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
            let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(bytes).with_style(style)
        }
        None => {
            let style = ProgressStyle::with_template("{spinner} {bytes} {bytes_per_sec}");
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(200));
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        }
    }
}
