//! Goal: a blocklisted client ends no export whose lock no other client has taken, and no export writes
//! after another client had its lock. Method: a server of this project, on whose blocklist the gateway's
//! client is put, either as a stock client does when it breaks a lock, or by hand.

use std::sync::Arc;
use std::time::Duration;

use loligo_rados::{Builder, IoCtx};
use loligo_rbd::{Evicted, Image, Mode, NewImage};
use loligo_server::{Handle, Server};
use loligo_stripe::Striper;
use tokio::runtime;
use tokio::time::{sleep, timeout};

use super::*;
use crate::backend::Spec;
use crate::device::{Definition, Registry};
use crate::proto::{Piece, Refused};

struct Place {
    _server: Handle,
    /// Another client.
    io: IoCtx,
    registry: Arc<Registry>,
}

impl Place {
    async fn new() -> Self {
        let server = Server::memory().pool("p").start().expect("the server starts");
        let builder = Builder::new().conf_file(server.conf().to_str().expect("UTF-8"));
        let io = builder.clone().connect().await.expect("connects").ioctx("p").await.expect("the pool");
        let opener = Opener::new(builder, Some("p".to_owned()));
        let registry = Registry::new(opener, runtime::Handle::current());
        Self { _server: server, io, registry }
    }

    async fn image(&self, name: &str) {
        loligo_rbd::create(&self.io, name, NewImage::of_size(16 << 20)).await.expect("made");
    }

    async fn add(&self, name: &str, spec: &str) {
        let spec = Spec::parse(spec).expect("a specification");
        let definition =
            Definition { name: name.to_owned(), description: String::new(), spec, allow: Default::default() };
        self.registry.add(definition).await.expect("added");
    }

    async fn run(&self, name: &str, io: Io) -> Result<Done, Fault> {
        let attached = self.registry.attach(name).await.map_err(|_| Fault::Shutdown)?;
        let later = match attached.backend().start(io) {
            Started::Now(done) => return done,
            Started::Later(later) => later,
        };
        timeout(Duration::from_secs(60), later).await.expect("it ends")
    }

    async fn write(&self, name: &str, offset: u64, byte: u8) -> Result<Done, Fault> {
        self.run(name, Io::Write { offset, data: vec![byte; 4096].into(), fua: false }).await
    }

    async fn first_byte(&self, name: &str, offset: u64) -> u8 {
        let read = self.run(name, Io::Read { offset, len: 4096, whole: false }).await;
        let Ok(Done::Data(pieces)) = read else { panic!("{name}: {read:?}") };
        match &pieces[0] {
            Piece::Data(data) if !data.is_empty() => data[0],
            _ => 0,
        }
    }

    async fn header(&self, image: &str) -> (Image, String) {
        let image = Image::open(&self.io, image, Mode::ReadOnly).await.expect("opens");
        let header = format!("rbd_header.{}", image.id());
        (image, header)
    }

    /// Puts the gateway's client on the blocklist, without breaking its lock.
    async fn blocklist_holder_of(&self, image: &str) {
        let (_, header) = self.header(image).await;
        let info = self.io.lock_info(&*header, "rbd_lock").await.expect("a lock");
        let addr = info.holders[0].addr;
        let client = format!("{}/{}", addr.sock.expect("an address"), addr.nonce);
        self.io.rados().block(&client, None).await.expect("blocked");
    }

    fn state(&self, name: &str) -> BackendState {
        let all = self.registry.list();
        all.into_iter().find(|info| info.name == name).expect("it is there").state
    }

    async fn until_lost(&self, name: &str) -> String {
        for _ in 0..3000 {
            if let BackendState::Lost(why) = self.state(name) {
                return why;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{name} is {:?}", self.state(name));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_outlive_a_client_that_is_blocklisted() {
    let place = Place::new().await;
    place.image("one").await;
    place.image("idle").await;
    let striper = Striper::new(place.io.clone());
    let file = striper.create("file").await.expect("made");
    file.extend(1 << 20).await.expect("longer");
    file.close().await.expect("closed");
    place.add("one", "rbd:one").await;
    place.add("idle", "rbd:idle,ro").await;
    place.add("file", "striped:file").await;
    place.write("one", 0, 1).await.expect("written");
    place.write("file", 0, 2).await.expect("written");
    for round in 3..6 {
        place.blocklist_holder_of("one").await;
        // These arrive before, during and after the renewal of the client: none of them fails.
        let written = futures_util::future::join_all((1..9).map(|n| place.write("one", n << 20, round)));
        assert!(written.await.iter().all(Result::is_ok));
        assert_eq!((place.first_byte("one", 0).await, place.first_byte("one", 5 << 20).await), (1, round));
        assert_eq!(place.first_byte("file", 0).await, 2);
        assert_eq!(place.first_byte("idle", 0).await, 0);
        place.write("file", 8192, round).await.expect("written");
        for name in ["one", "idle", "file"] {
            assert_eq!(place.state(name), BackendState::Open, "{name}");
        }
    }
    // A device added now gets a working client.
    place.image("two").await;
    place.add("two", "rbd:two").await;
    place.write("two", 0, 9).await.expect("written");
    let (image, _) = place.header("one").await;
    assert_eq!(image.lock_info().await.expect("a lock").holders.len(), 1, "the predecessors' are broken");
    place.registry.close().await;
    assert!(image.lock_info().await.expect("a lock").holders.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_whose_lock_another_client_has_is_lost_alone() {
    let place = Place::new().await;
    for name in ["taken", "free"] {
        place.image(name).await;
        place.add(name, &format!("rbd:{name}")).await;
        place.write(name, 0, 1).await.expect("written");
    }
    // As a stock client does when it finds the owner dead.
    let other = Image::open(&place.io, "taken", Mode::ReadWrite).await.expect("opens");
    let holder = other.lock_info().await.expect("a lock").holders.remove(0);
    other.break_lock(holder.client, &holder.cookie, Evicted::Yes).await.expect("broken");
    other.write(0, vec![7; 4096].into()).await.expect("written");
    let why = place.until_lost("taken").await;
    // Which message appears depends on timing: the other client has the lock soon after it broke ours.
    assert!(why.contains("blocklisted") && why.contains("client"), "{why}");
    assert_eq!(place.registry.attach("taken").await.err(), Some(Refused::Lost));
    place.write("free", 4096, 2).await.expect("written");
    assert_eq!(place.state("free"), BackendState::Open);
    // A client that has had the lock may have written, even if it has released the lock since.
    other.close().await.expect("closes");
    assert!(matches!(place.state("taken"), BackendState::Lost(_)));
    let stored = Image::open(&place.io, "taken", Mode::ReadOnly).await.expect("opens");
    assert_eq!(stored.read(0, 4096).await.expect("read")[0], 7);
    place.registry.remove("taken", false).await.expect("removed");
    place.add("taken", "rbd:taken").await;
    place.write("taken", 0, 8).await.expect("written");
    place.registry.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_taken_and_given_up_is_lost_too() {
    let place = Place::new().await;
    place.image("disk").await;
    place.add("disk", "rbd:disk").await;
    place.write("disk", 0, 1).await.expect("written");
    let (image, header) = place.header("disk").await;
    let holder = image.lock_info().await.expect("a lock").holders.remove(0);
    place.io.break_lock(&*header, "rbd_lock", holder.client, &holder.cookie).await.expect("broken");
    let client = format!("{}/{}", holder.addr.sock.expect("an address"), holder.addr.nonce);
    place.io.rados().block(&client, None).await.expect("blocked");
    // A write that was not done is not reported as done.
    assert_eq!(place.write("disk", 0, 2).await, Err(Fault::Io));
    assert!(place.until_lost("disk").await.contains("another client"));
    assert_eq!(image.read(0, 4096).await.expect("read")[0], 1);
    place.registry.close().await;
}

/// No client is blocklisted: the gateway's client works, and learns that another client has its lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_broken_is_not_taken_again() {
    let place = Place::new().await;
    for (name, spec) in [("disk", "rbd:disk"), ("cached", "rbd:cached,cache=4M"), ("free", "rbd:free")] {
        place.image(name).await;
        place.add(name, spec).await;
        place.write(name, 0, 1).await.expect("written");
        place.run(name, Io::Flush).await.expect("flushed");
    }
    for name in ["disk", "cached"] {
        let other = Image::open(&place.io, name, Mode::ReadWrite).await.expect("opens");
        let holder = other.lock_info().await.expect("a lock").holders.remove(0);
        other.break_lock(holder.client, &holder.cookie, Evicted::No).await.expect("broken");
        other.write(0, vec![7; 4096].into()).await.expect("written");
        // The lock is free again when the gateway is asked for something.
        other.close().await.expect("closes");
        let why = place.until_lost(name).await;
        assert!(why.contains("broken"), "{why}");
        assert_eq!(place.registry.attach(name).await.err(), Some(Refused::Lost));
        let stored = Image::open(&place.io, name, Mode::ReadOnly).await.expect("opens");
        assert_eq!(stored.read(0, 4096).await.expect("read")[0], 7);
    }
    place.write("free", 4096, 2).await.expect("written");
    assert_eq!(place.state("free"), BackendState::Open);
    place.registry.close().await;
}

/// The gateway learns first that its lock is requested, then that the lock is gone, and last that it is
/// blocklisted.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_gone_when_it_was_asked_for_is_lost() {
    let place = Place::new().await;
    place.image("disk").await;
    place.add("disk", "rbd:disk").await;
    place.write("disk", 0, 1).await.expect("written");
    let (image, header) = place.header("disk").await;
    let holder = image.lock_info().await.expect("a lock").holders.remove(0);
    place.io.break_lock(&*header, "rbd_lock", holder.client, &holder.cookie).await.expect("broken");
    let other = Image::open(&place.io, "disk", Mode::ReadWrite).await.expect("opens");
    let asker = Image::open(&place.io, "disk", Mode::ReadWrite).await.expect("opens");
    // The second client requests the lock from the first; all clients that believe to own it answer.
    other.write(0, vec![7; 4096].into()).await.expect("written");
    asker.write(4096, vec![7; 4096].into()).await.expect("written");
    asker.close().await.expect("closes");
    other.close().await.expect("closes");
    let client = format!("{}/{}", holder.addr.sock.expect("an address"), holder.addr.nonce);
    place.io.rados().block(&client, None).await.expect("blocked");
    place.until_lost("disk").await;
    assert_eq!(image.read(0, 4096).await.expect("read")[0], 7);
    place.registry.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_is_given_up_only_if_all_of_it_is_written() {
    let place = Place::new().await;
    for name in ["clean", "dirty"] {
        place.image(name).await;
        place.add(name, &format!("rbd:{name},cache=4M")).await;
        place.write(name, 0, 1).await.expect("written");
        place.run(name, Io::Flush).await.expect("flushed");
    }
    place.write("dirty", 4096, 2).await.expect("written");
    place.blocklist_holder_of("clean").await;
    let why = place.until_lost("dirty").await;
    assert!(why.contains("blocklisted") || why.contains("writing back"), "{why}");
    assert_eq!(place.first_byte("clean", 0).await, 1);
    place.write("clean", 4096, 3).await.expect("written");
    place.run("clean", Io::Flush).await.expect("flushed");
    let stored = Image::open(&place.io, "dirty", Mode::ReadOnly).await.expect("opens");
    // Flushed data stay.
    assert_eq!(stored.read(0, 4096).await.expect("read")[0], 1);
    place.registry.close().await;
}
