//! `pg dump_stuck`: placement groups that have not been what they should be for long. Here all are active and
//! clean.

use super::{Call, Outcome, Reply};
use crate::output::Format;

/// What a placement group may be stuck in.
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
