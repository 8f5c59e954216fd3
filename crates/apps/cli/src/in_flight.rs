//! Operations of a client in flight, in the JSON of Ceph's `objecter_requests`.

use loligo_rados::{OsdId, Request, WaitsFor};
use loligo_wire::SnapId;
use serde_json::{Value, json};

/// Returns a client's operations in the form of stock clients, plus the reason why each waits, which
/// stock clients do not report.
pub(crate) fn as_stock_has_it(requests: &[Request]) -> Value {
    let ops = requests.iter().map(|request| {
        let object = String::from_utf8_lossy(&request.object);
        let locator = locator(request);
        let snap =
            if request.snap == SnapId::HEAD { "head".to_owned() } else { format!("{:x}", request.snap.0) };
        json!({
            "tid": request.tid.0,
            "pg": request.pg.to_string(),
            "osd": request.osd.map_or(-1, |OsdId(osd)| osd),
            "object_id": object,
            "object_locator": locator,
            "target_object_id": object,
            "target_object_locator": locator,
            "paused": u8::from(request.waits_for == WaitsFor::Unpause),
            "age": request.age.as_secs_f64(),
            "attempts": request.attempts,
            "snapid": snap,
            "osd_ops": request.operations,
            "waits_for": words_for(request.waits_for),
        })
    });
    json!({
        "ops": ops.collect::<Vec<_>>(),
        "linger_ops": [],
        "pool_ops": [],
        "pool_stat_ops": [],
        "statfs_ops": [],
        "command_ops": [],
    })
}

/// Formats the locator as Ceph does: the pool, the namespace, the key.
fn locator(request: &Request) -> String {
    let mut text = format!("@{}", request.pg.pool);
    for (mark, part) in [(';', &request.namespace), (':', &request.locator_key)] {
        if !part.is_empty() {
            text.push(mark);
            text += &String::from_utf8_lossy(part);
        }
    }
    text
}

/// Describes the reason why an operation waits.
pub(crate) fn words_for(waits_for: WaitsFor) -> &'static str {
    match waits_for {
        WaitsFor::Place => "a place in flight",
        WaitsFor::Osd => "an OSD that serves its placement group",
        WaitsFor::Unpause => "the end of a pause, or room",
        WaitsFor::Turn => "those before it",
        WaitsFor::Backoff => "the OSD's word that it may come",
        WaitsFor::Connection => "a connection",
        WaitsFor::Answer => "the answer",
        _ => "something",
    }
}
