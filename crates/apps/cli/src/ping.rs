//! `loligo ping`: asks a monitor and an OSD, and shows how long their answers take.

use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{Builder, CommandReply, Errno, Error, OsdId, Rados};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::client::{self, Client};
use crate::failure::{Context, Failure};
use crate::format::Format;

/// The first request of a monitor: its answer lists the OSDs.
const OSDS: &str = r#"{"prefix": "osd ls", "format": "json"}"#;
/// A request that costs an OSD nothing.
const VERSION: &str = r#"{"prefix": "version"}"#;
/// For how much longer the client may say itself why it found no monitor.
const GRACE: Duration = Duration::from_secs(1);

/// What is asked.
#[derive(clap::Args)]
pub(crate) struct Ping {
    /// Seconds until both must have answered.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| (Duration::from_millis(1)..=DAY).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds is needed, such as 5 or 0.5".to_owned())
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Ping {
    /// The client looks for a monitor for so long.
    pub(crate) fn patient(&self, builder: Builder) -> Builder {
        builder.set("client_mount_timeout", &format!("{:.3}", self.timeout.as_secs_f64()))
    }
}

/// How long a daemon took.
struct Answered {
    /// Until it had accepted the connection and the user.
    first: Duration,
    /// Until the answer to the next request.
    next: Duration,
}

/// The deadline, and what it is for messages.
struct Patience {
    limit: Duration,
    until: Instant,
}

impl Patience {
    async fn wait<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        timeout_at(self.until, answer).await.unwrap_or(Err(Error::Timeout(self.limit)))
    }
}

pub(crate) fn run(client: Client, options: &Ping) -> Result<(), Failure> {
    let format = client.format;
    client::runtime(1)?.block_on(async {
        let began = Instant::now();
        let patience = Patience { limit: options.timeout, until: began + options.timeout };
        let monitor = || "ping a monitor".to_owned();
        let connecting = timeout_at(patience.until + GRACE, client.cluster());
        let silent = || Failure::of(Errno::ETIMEDOUT, monitor(), Error::Timeout(options.timeout));
        let rados = connecting.await.unwrap_or_else(|_| Err(silent()))?;
        let asked = ask(&rados, &patience, began).await;
        // A daemon that does not answer is not waited for.
        let _ = timeout_at(patience.until, rados.shutdown()).await;
        let (mon, osd) = asked?;
        show(format, &mon, osd);
        Ok(())
    })
}

/// Asks a monitor, and the first OSD that is up.
async fn ask(
    rados: &Rados,
    patience: &Patience,
    began: Instant,
) -> Result<(Answered, (OsdId, Answered)), Failure> {
    let what = || "ping a monitor".to_owned();
    let first = began.elapsed();
    let asked = Instant::now();
    let list = patience.wait(rados.ask_monitors(vec![OSDS.into()], Bytes::new())).await.context(what)?;
    let mon = Answered { first, next: asked.elapsed() };
    let what = || "ping an OSD".to_owned();
    for osd in osds(&list).map_err(|why| Failure::new(what(), why))? {
        match patience.wait(of_osd(rados, osd)).await {
            // It is not up.
            Err(why) if why.errno() == Errno::ENXIO => {}
            answered => {
                return Ok((mon, (osd, answered.context(|| format!("ping osd.{}", osd.0))?)));
            }
        }
    }
    Err(Failure::new(what(), "a monitor answered, but says that no OSD is up"))
}

/// The OSDs in a monitor's answer.
fn osds(list: &CommandReply) -> Result<Vec<OsdId>, String> {
    if list.result < 0 {
        let why = &list.status;
        return Err(format!("a monitor answered, but does not tell which OSDs there are ({why})"));
    }
    let ids: Result<Vec<i32>, _> = serde_json::from_slice(&list.output);
    let ids = ids.map_err(|why| format!("a monitor answered, but its list of OSDs is no JSON: {why}"))?;
    Ok(ids.into_iter().map(OsdId).collect())
}

/// Asks an OSD twice. Any answer will do, also that the user may not ask.
async fn of_osd(rados: &Rados, osd: OsdId) -> Result<Answered, Error> {
    let ask = || rados.ask_osd(osd, vec![VERSION.into()], Bytes::new());
    let began = Instant::now();
    ask().await?;
    let first = began.elapsed();
    let asked = Instant::now();
    ask().await?;
    Ok(Answered { first, next: asked.elapsed() })
}

fn show(format: Format, mon: &Answered, (osd, of_osd): (OsdId, Answered)) {
    if format == Format::Plain {
        let name = format!("osd.{}", osd.0);
        for (name, Answered { first, next }) in [("monitor", mon), (&*name, &of_osd)] {
            let [first, next] = [first, next].map(|time| time.as_secs_f64() * 1e3);
            sayln!("{name:<8} connected in {first:.2} ms, answered in {next:.2} ms");
        }
        return;
    }
    let micros = |time: Duration| Value::from(time.as_micros() as u64);
    let one = |Answered { first, next }: &Answered| json!({"connect_us": micros(*first), "round_trip_us": micros(*next)});
    let mut of_osd = one(&of_osd);
    of_osd["id"] = osd.0.into();
    format.print("ping", "item", &json!({"mon": one(mon), "osd": of_osd}));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_be_parts() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("60"), Ok(Duration::from_secs(60)));
        for wrong in ["0", "-1", "x", "", "1e9", "nan"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_list_of_osds_may_be_refused() {
        let reply = |result, status: &str, output: &'static str| CommandReply {
            result,
            status: status.to_owned(),
            output: output.into(),
        };
        assert_eq!(osds(&reply(0, "", "[0,2]\n")), Ok(vec![OsdId(0), OsdId(2)]));
        let refused = osds(&reply(-13, "access denied", "")).expect_err("refused");
        assert!(refused.contains("access denied"), "{refused}");
        assert!(osds(&reply(0, "", "nonsense")).expect_err("no JSON").contains("no JSON"));
    }
}
