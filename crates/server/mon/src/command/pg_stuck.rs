//! `pg dump_stuck`: placement groups that have been in a bad state for long. Here all are always active
//! and clean.

use super::{Call, Outcome, Reply};
use crate::output::Format;

/// The states in which a placement group may be stuck.
pub(super) const STUCK: [&str; 5] = ["inactive", "unclean", "stale", "undersized", "degraded"];

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    // The line breaks are those of a stock manager.
    let none = match call.format {
        Format::Plain => "",
        Format::Json => "{\"pg_ready\":true,\"stuck_pg_stats\":[]\n}",
        Format::JsonPretty => "{\n    \"pg_ready\": true,\n    \"stuck_pg_stats\": []\n\n}\n",
        Format::Xml => "<pg_info><pg_ready>true</pg_ready><stuck_pg_stats></stuck_pg_stats>\n</pg_info>",
        Format::XmlPretty => {
            "<pg_info>\n <pg_ready>true</pg_ready>\n <stuck_pg_stats>\n </stuck_pg_stats>\n</pg_info>\n\n"
        }
    };
    Ok(Reply::output(none).with_status("ok"))
}
