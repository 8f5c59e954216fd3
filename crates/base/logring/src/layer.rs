//! Records the events of `tracing` in the same rings.

use std::fmt::{self, Write as _};

use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::{Subsys, Text, line};

/// A layer for `tracing_subscriber`, for code that is not performance-critical: the caller formats an
/// event's fields, and the text goes through its ring like any other entry.
///
/// | `tracing` level | level |
/// |---|---|
/// | `ERROR` | −1 |
/// | `WARN` | 0 |
/// | `INFO` | 1 |
/// | `DEBUG` | 10 |
/// | `TRACE` | 20 |
///
/// The subsystem is the first part of the target that names one, without the prefix `loligo_`:
/// `loligo_msgr::driver` and `msgr` are `msgr`; a target that names no subsystem is `none`. Spans are
/// not recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingLayer;

impl<S: Subscriber> Layer<S> for RingLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        subsys(metadata.target()).records(level(metadata.level()))
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing_core::Interest {
        tracing_core::Interest::sometimes() // levels change at run time
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields { text: Text::empty(), message: Text::empty() };
        event.record(&mut fields);
        let (message, rest) = (fields.message.as_str(), fields.text.as_str());
        line(subsys(metadata.target()), level(metadata.level()), format_args!("{message}{rest}"));
    }
}

fn level(level: &Level) -> i8 {
    match *level {
        Level::ERROR => -1,
        Level::WARN => 0,
        Level::INFO => 1,
        Level::DEBUG => 10,
        Level::TRACE => 20,
    }
}

fn subsys(target: &str) -> Subsys {
    let parts = target.split("::").map(|part| part.strip_prefix("loligo_").unwrap_or(part));
    parts.into_iter().find_map(Subsys::named).unwrap_or(Subsys::NONE)
}

/// `message field=value …`.
struct Fields {
    message: Text,
    text: Text,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // An error means that the text is full.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.text, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_subsystems() {
        assert_eq!(subsys("loligo_msgr::driver"), Subsys::MSGR);
        assert_eq!(subsys("my_program::osd"), Subsys::OSD);
        assert_eq!(subsys("hyper::client_x"), Subsys::NONE);
    }
}
