//! Goal: no device delays another, and no phase transition happens twice. Method: back ends that hang
//! until they are released, in simulated time.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::backend::{BackendError, Memory, Opener, Started, Work};
use crate::proto::{Can, Io, Refused};

/// Memory whose resizes and close hang while `stuck` is set.
pub(crate) struct Hanging {
    memory: Memory,
    stuck: watch::Receiver<bool>,
    closed: Arc<AtomicBool>,
}

impl Hanging {
    fn new(stuck: &watch::Sender<bool>) -> (Box<Self>, Arc<AtomicBool>) {
        let closed = Arc::new(AtomicBool::new(false));
        let memory = Memory::new(1 << 20, false);
        let hanging = Self { memory, stuck: stuck.subscribe(), closed: Arc::clone(&closed) };
        (Box::new(hanging), closed)
    }
}

impl Backend for Hanging {
    fn kind(&self) -> &'static str {
        "hanging"
    }

    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn can(&self) -> Can {
        self.memory.can()
    }

    fn start(&self, io: Io) -> Started {
        self.memory.start(io)
    }

    fn resize(&self, size: u64) -> Work {
        let (mut stuck, resized) = (self.stuck.clone(), self.memory.resize(size));
        Box::pin(async move {
            let _ = stuck.wait_for(|stuck| !stuck).await;
            resized.await
        })
    }

    fn close(&self) -> Work {
        let (mut stuck, closed) = (self.stuck.clone(), Arc::clone(&self.closed));
        Box::pin(async move {
            let _ = stuck.wait_for(|stuck| !stuck).await;
            closed.store(true, Ordering::Relaxed);
            Ok::<(), BackendError>(())
        })
    }
}

fn registry() -> Arc<Registry> {
    Registry::new(Opener::local(), Handle::current())
}

fn definition(name: &str, spec: &str) -> Definition {
    let spec = Spec::parse(spec).expect("it is one");
    Definition { name: name.to_owned(), description: String::new(), spec, allow: Default::default() }
}

fn phase_of(registry: &Registry, name: &str) -> Option<Phase> {
    registry.list().into_iter().find(|info| info.name == name).map(|info| info.phase)
}

#[tokio::test]
async fn devices_come_are_used_and_go() {
    let registry = registry();
    registry.add(definition("a", "memory:1M")).await.expect("memory");
    let again = registry.add(definition("a", "memory:2M")).await;
    assert_eq!(again, Err(DeviceError::Exists("a".to_owned())));
    let client = registry.attach("a").await.expect("it is ready");
    // The empty name selects the only device.
    let other = registry.attach("").await.expect("it is ready");
    assert_eq!(registry.list()[0].clients, 2);
    let refused = registry.remove("a", false).await;
    assert_eq!(refused, Err(DeviceError::InUse { name: "a".to_owned(), clients: 2 }));
    drop((client, other));
    registry.remove("a", false).await.expect("nobody uses it");
    assert_eq!(registry.attach("a").await.err(), Some(Refused::Unknown));
    assert_eq!(registry.remove("a", true).await, Err(DeviceError::Unknown("a".to_owned())));
}

#[tokio::test]
async fn what_cannot_be_opened_is_no_device() {
    let registry = registry();
    let failed = registry.add(definition("a", "file:/no such file")).await;
    assert!(matches!(failed, Err(DeviceError::Backend { .. })), "{failed:?}");
    let failed = registry.add(definition("b", "rbd:p/i")).await;
    assert!(matches!(failed, Err(DeviceError::Backend { .. })), "{failed:?}");
    assert!(registry.list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_stuck_delays_no_other() {
    let registry = registry();
    let (stuck, _) = watch::channel(true);
    let (hanging, closed) = Hanging::new(&stuck);
    registry.add_open("stuck", hanging).expect("the name is free");
    registry.add(definition("free", "memory:1M")).await.expect("memory");
    let resizing = tokio::spawn({
        let registry = Arc::clone(&registry);
        async move { registry.resize("stuck", 5).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!resizing.is_finished());
    // The other device is used, changed, removed and added without delay.
    let at_once = async {
        registry.attach("free").await.expect("it is ready");
        registry.resize("free", 4096).await.expect("memory");
        registry.suspend("free").await.expect("nothing is under way");
        registry.resume("free").await.expect("it is suspended");
        registry.remove("free", false).await.expect("nobody uses it");
        registry.add(definition("free", "memory:1M")).await.expect("memory");
        // Clients can still attach to the stuck one.
        registry.attach("stuck").await.expect("it is ready");
    };
    timeout(Duration::from_millis(1), at_once).await.expect("nothing waits for the stuck one");
    // Its removal does not wait for the hanging resize, and waits for its close only for a limited time.
    registry.remove("stuck", true).await.expect("its end goes on by itself");
    assert!(matches!(resizing.await.expect("it ends"), Err(DeviceError::Removing(_))));
    assert_eq!(phase_of(&registry, "stuck"), None);
    assert!(!closed.load(Ordering::Relaxed));
    stuck.send_replace(false);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(closed.load(Ordering::Relaxed), "what was open is closed when that goes again");
}

#[tokio::test(start_paused = true)]
async fn a_forced_removal_tells_clients_and_waits_for_them() {
    let registry = registry();
    let (stuck, _) = watch::channel(false);
    let (hanging, closed) = Hanging::new(&stuck);
    registry.add_open("a", hanging).expect("the name is free");
    let client = registry.attach("a").await.expect("it is ready");
    let mut going = client.going();
    let removing = tokio::spawn({
        let registry = Arc::clone(&registry);
        async move { registry.remove("a", true).await }
    });
    going.wait_for(|going| *going).await.expect("it is told");
    assert_eq!(phase_of(&registry, "a"), Some(Phase::Removing));
    assert_eq!(registry.attach("a").await.err(), Some(Refused::Shutdown));
    assert!(!closed.load(Ordering::Relaxed), "a client is still in");
    drop(client);
    removing.await.expect("it ends").expect("it is removed");
    assert!(closed.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn suspend_waits_for_what_is_under_way_and_changes_are_in_order() {
    let registry = registry();
    registry.add(definition("a", "memory:1M")).await.expect("memory");
    let client = registry.attach("a").await.expect("it is ready");
    assert!(client.device().gate.enter());
    let inside = client.device().inside();
    let suspending = tokio::spawn({
        let registry = Arc::clone(&registry);
        async move { registry.suspend("a").await }
    });
    let resuming = tokio::spawn({
        let registry = Arc::clone(&registry);
        async move { registry.resume("a").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!suspending.is_finished() && !resuming.is_finished());
    assert!(!client.device().gate.enter(), "nothing new is begun");
    drop(inside);
    suspending.await.expect("it ends").expect("it was ready");
    resuming.await.expect("it ends").expect("it was suspended");
    assert!(client.device().gate.enter());
    client.device().gate.leave();
    // A suspended device can be resized, and stays suspended.
    registry.suspend("a").await.expect("it is ready");
    registry.resize("a", 8192).await.expect("memory");
    assert_eq!(phase_of(&registry, "a"), Some(Phase::Suspended));
    assert!(!client.device().gate.enter());
    assert_eq!(client.export_as("a").size, 8192);
}

/// Many tasks add, use, change and remove the same few devices at once: an attached client always finds
/// a back end, and in the end no device is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_comes_in_while_devices_come_and_go_finds_one_that_is_there() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let registry = registry();
    let mut tasks = Vec::new();
    for seed in 0..8 {
        let registry = Arc::clone(&registry);
        tasks.push(tokio::spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed);
            for _ in 0..300 {
                let name = NAMES[rng.usize(..NAMES.len())];
                match rng.u8(..8) {
                    0 => drop(registry.add(definition(name, "memory:64K")).await),
                    1 => drop(registry.remove(name, rng.bool()).await),
                    2 => drop(registry.suspend(name).await),
                    3 => drop(registry.resume(name).await),
                    4 => drop(registry.resize(name, rng.u64(4096..65536)).await),
                    _ => {
                        let Ok(client) = registry.attach(name).await else { continue };
                        assert!(client.export_as(name).size >= 4096);
                        client.read_now(0, 512, &mut bytes::BytesMut::new());
                    }
                }
            }
        }));
    }
    for task in tasks {
        timeout(Duration::from_secs(60), task).await.expect("nobody hangs").expect("nobody panics");
    }
    registry.close().await;
    assert!(registry.list().is_empty());
}
