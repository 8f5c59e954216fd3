//! A client of daemons that the crate does not know.
//!
//! Goal: `cluster` needs no change for it. The client registers, receives the map it subscribed to and
//! tickets for its daemons, keeps a lossless session across lost connections, and switches to another
//! daemon when the map says so. Method: a toy metadata server and a toy monitor in this process, over
//! loopback, both with cephx, and a proxy that breaks connections.

mod toy;

use std::sync::Arc;
use std::time::Duration;

use loligo_cluster::{Cluster, Errno};
use loligo_msgr::testing::FaultProxies;
use loligo_wire::EntityType;

use toy::{Map, Mds, MdsClient, Monitor, until};

const ASKED: u64 = 300;

async fn joined(monitor: &Monitor) -> (Cluster, Arc<MdsClient>) {
    let joining = monitor.builder().prepare().await.expect("a configuration");
    let mds = MdsClient::new(joining.cluster());
    joining.cluster().register(EntityType::MDS, &[Map::MESSAGE], &mds).expect("nobody else is there");
    let cluster = joining.connect().await.expect("a monitor");
    cluster.monitors().follow("mdsmap", 0);
    (cluster, mds)
}

fn numbers() -> Vec<u64> {
    (0..ASKED).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lossless_session_survives_lost_connections() {
    let monitor = Monitor::start().await;
    let server = Mds::start(&monitor).await;
    let proxies = Arc::new(FaultProxies::new(7, 6_000, 20));
    let route = Arc::clone(&proxies);
    let builder = monitor.builder().reroute(move |kind, addr| match kind {
        EntityType::MDS => route.route(addr),
        _ => addr,
    });
    let joining = builder.prepare().await.expect("a configuration");
    let mds = MdsClient::new(joining.cluster());
    joining.cluster().register(EntityType::MDS, &[Map::MESSAGE], &mds).expect("nobody else is there");
    let cluster = joining.connect().await.expect("a monitor");
    cluster.monitors().follow("mdsmap", 0);
    monitor.set_map(1, server.addr());
    for number in numbers() {
        mds.ask(number);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    until("all are answered", || mds.answers().len() as u64 >= ASKED).await;
    assert_eq!(mds.answers(), numbers(), "once each, in order");
    assert_eq!(server.heard(), numbers(), "once each, in order");
    assert!(proxies.sum(|proxy| proxy.faults()) > 0, "no connection was lost");
    assert_eq!((mds.opened(), mds.times_lost()), (1, 0), "one session, which no loss has ended");
    assert!(mds.times_connected() > 1, "the session has had one socket only");
    assert!(server.clients().iter().all(|client| client == "client.toy"), "not as whom the ticket says");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_map_leads_to_another_daemon() {
    let monitor = Monitor::start().await;
    let (first, second) = (Mds::start(&monitor).await, Mds::start(&monitor).await);
    let (cluster, mds) = joined(&monitor).await;
    monitor.set_map(1, first.addr());
    mds.ask(0);
    until("the first one has answered", || mds.answers() == [0]).await;
    first.fall_silent();
    mds.ask(1);
    until("the first one has heard it", || first.heard() == [0, 1]).await;
    monitor.set_map(2, second.addr());
    until("the second map has come", || mds.opened() == 2).await;
    mds.ask(2);
    until("the second one has answered", || mds.answers() == [0, 1, 2]).await;
    assert_eq!(second.heard(), [1, 2], "what the first one has not answered, too");
    // Losing the monitor session loses the subscription; the next session must renew it.
    monitor.drop_connections();
    monitor.set_map(3, first.addr());
    first.speak_again();
    until("the third map has come", || mds.opened() == 3).await;
    mds.ask(3);
    until("the first one has answered again", || mds.answers() == [0, 1, 2, 3]).await;
    assert_eq!(first.heard(), [0, 1, 3]);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_has_forgotten_the_session_is_told_of() {
    let monitor = Monitor::start().await;
    let server = Mds::start(&monitor).await;
    let (cluster, mds) = joined(&monitor).await;
    monitor.set_map(1, server.addr());
    mds.ask(0);
    until("it has answered", || mds.answers() == [0]).await;
    server.forget_sessions();
    mds.ask(1);
    until("the client knows", || mds.times_forgotten() == 1).await;
    until("it has answered the rest", || mds.answers() == [0, 1]).await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_registers_late_gets_tickets_too() {
    let monitor = Monitor::start().await;
    let server = Mds::start(&monitor).await;
    monitor.set_map(1, server.addr());
    let cluster = monitor.builder().connect().await.expect("a monitor");
    let mds = MdsClient::new(&cluster);
    cluster.register(EntityType::MDS, &[Map::MESSAGE], &mds).expect("nobody else is there");
    cluster.monitors().follow("mdsmap", 0);
    mds.ask(0);
    until("it has answered", || mds.answers() == [0]).await;
    assert_eq!(server.clients(), ["client.toy"]);
    let another = MdsClient::new(&cluster);
    let taken = cluster.register(EntityType::MDS, &[], &another).expect_err("one is there");
    assert_eq!(taken.errno(), Errno::EEXIST);
    let refused = cluster.register(EntityType::MON, &[], &another).expect_err("the cluster is theirs");
    assert_eq!(refused.errno(), Errno::EINVAL);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_was_closed_does_not_join() {
    let monitor = Monitor::start().await;
    let joining = monitor.builder().prepare().await.expect("a configuration");
    let cluster = joining.cluster().clone();
    let mut settings = cluster.monitors().watch_config();
    cluster.close();
    let refused = joining.connect().await.expect_err("it has ended");
    assert!(matches!(refused, loligo_cluster::Error::Shutdown), "{refused}");
    settings.changed().await.expect("the end is a change");
    assert_eq!(*settings.borrow_and_update(), None);
}
