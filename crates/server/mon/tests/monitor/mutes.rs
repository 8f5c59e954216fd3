//! Goal: alerts are muted for a time or until they get worse, also over a restart. Method: a monitor
//! without sockets; the expected texts are those of a stock 16.2.15 cluster, except for a manager's
//! alerts.

use loligo_mon::state::State;
use loligo_wire::UTime;

use crate::common::{Mon, NOW};

#[test]
fn alerts_are_muted_and_heard_again() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"osd set","key":"noout"}"#);
    let mute = |rest: &str| format!(r#"{{"prefix":"health mute",{rest}}}"#);
    let health = r#"{"prefix":"health","detail":"detail"}"#;
    assert_eq!(
        mon.output(admin, health),
        "HEALTH_WARN noout flag(s) set\n[WRN] OSDMAP_FLAGS: noout flag(s) set\n"
    );
    let refused = mon.command(admin, &mute(r#""code":"OSD_DOWN""#));
    let told = "health alert OSD_DOWN is not currently raised";
    assert_eq!((refused.result, refused.status.as_str()), (-2, told));
    let refused = mon.command(admin, &mute(r#""code":"OSDMAP_FLAGS","ttl":"x""#));
    assert_eq!((refused.result, refused.status.as_str()), (-22, "invalid duration: x (expected digit)"));
    mon.output(admin, &mute(r#""code":"OSDMAP_FLAGS""#));
    mon.output(admin, &mute(r#""code":"OSD_DOWN","sticky":true,"ttl":"10m""#));
    assert_eq!(
        mon.output(admin, health),
        "HEALTH_OK (muted: OSDMAP_FLAGS OSD_DOWN(10m))\n(MUTED) [WRN] OSDMAP_FLAGS: noout flag(s) set\n"
    );
    assert_eq!(
        mon.output(admin, r#"{"prefix":"health","format":"json"}"#),
        "{\"status\":\"HEALTH_OK\",\"checks\":{\"OSDMAP_FLAGS\":{\"severity\":\"HEALTH_WARN\",\"summary\":\
         {\"message\":\"noout flag(s) set\",\"count\":5},\"muted\":true}},\"mutes\":[{\"code\":\"OSDMAP_FLAGS\",\"sticky\":false,\
         \"summary\":\"noout flag(s) set\",\"count\":5},{\"code\":\"OSD_DOWN\",\"ttl\":\"2027-01-15T08:10:00.000000+0000\",\
         \"sticky\":true,\"summary\":\"\",\"count\":0}]}"
    );
    let status = mon.output(admin, r#"{"prefix":"status"}"#);
    assert!(
        status.contains("    health: HEALTH_OK\n            (muted: OSDMAP_FLAGS OSD_DOWN(10m))\n"),
        "{status}"
    );
    let again = State::from_json(&mon.monitor.state().to_json()).expect("a state");
    assert_eq!(again.mutes(), mon.monitor.state().mutes());
    mon.monitor.tick(NOW);
    assert_eq!(mon.monitor.state().mutes().len(), 2);
    // The alert gets worse: one more flag.
    mon.output(admin, r#"{"prefix":"osd set","key":"noin"}"#);
    mon.monitor.tick(NOW);
    assert_eq!(mon.monitor.state().mutes().keys().collect::<Vec<_>>(), ["OSD_DOWN"]);
    mon.monitor.tick(UTime { sec: NOW.sec + 600, ..NOW });
    assert!(mon.monitor.state().mutes().is_empty());
    mon.output(admin, &mute(r#""code":"X","sticky":true"#));
    mon.output(admin, &mute(r#""code":"Y","sticky":true"#));
    mon.output(admin, r#"{"prefix":"health unmute","code":"X"}"#);
    assert_eq!(mon.monitor.state().mutes().keys().collect::<Vec<_>>(), ["Y"]);
    mon.output(admin, r#"{"prefix":"health unmute"}"#);
    assert!(mon.monitor.state().mutes().is_empty());
    let reader = mon.client("r", "allow r");
    assert_eq!(mon.command(reader, &mute(r#""code":"X","sticky":true"#)).result, -13);
}
