//! Goal: a read of what is cached waits for no lock. Method: one thread holds the locks, another one reads.

use std::convert::Infallible;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;

use super::*;

const BLOCK: usize = 4096;
/// Far more than a read takes on the slowest machine. A read that waits for the locks would never end.
const NEVER: Duration = Duration::from_secs(120);

/// A back end that reads ones.
struct Ones;

impl Backend for Ones {
    type Error = Infallible;

    async fn read(&self, _: u64, _: u64, len: u64) -> Result<Bytes, Infallible> {
        Ok(vec![1; len as usize].into())
    }

    async fn write(&self, _: u64, _: Vec<(u64, Vec<Bytes>)>) -> Result<(), Infallible> {
        Ok(())
    }
}

#[test]
fn what_is_cached_is_read_while_another_thread_holds_the_locks() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let options = Options { dirty_time: NEVER, ..Options::of_size(8 << 20) };
    let file = Arc::new(Cache::new(options).open("f", Ones));
    runtime.block_on(async {
        // Clean blocks, a dirty one, one that is dirty in part, and one that is known in part.
        file.fetch(0, 0, 40 * BLOCK as u64).await.unwrap();
        file.write(0, BLOCK as u64, &[2; BLOCK]).await.unwrap();
        file.write(0, 3 * BLOCK as u64 + 100, &[3; 10]).await.unwrap();
        file.write(0, 40 * BLOCK as u64 + 100, &[4; 10]).await.unwrap();
    });
    let mut expected = vec![1; 40 * BLOCK];
    expected[BLOCK..2 * BLOCK].fill(2);
    expected[3 * BLOCK + 100..3 * BLOCK + 110].fill(3);

    let object = file.source.find(0).expect("it is cached");
    let state = object.state.lock();
    let table = file.source.tables.lock_of(0);
    let (send, receive) = mpsc::channel();
    let reader = {
        let file = Arc::clone(&file);
        std::thread::spawn(move || {
            let mut each = vec![0; 40 * BLOCK];
            for (n, block) in each.chunks_mut(BLOCK).enumerate() {
                file.try_read(0, (n * BLOCK) as u64, block).expect("a block");
            }
            let mut all = vec![0; 40 * BLOCK];
            file.try_read(0, 0, &mut all).expect("all blocks");
            let mut part = [0; 10];
            file.try_read(0, 40 * BLOCK as u64 + 100, &mut part).expect("a part");
            assert!(file.try_read(0, 40 * BLOCK as u64, &mut part).is_none(), "it is not known");
            assert!(file.try_read(7, 0, &mut part).is_none(), "nothing of it is");
            send.send((each, all, part)).expect("the other thread waits for it");
        })
    };
    let read = receive.recv_timeout(NEVER);
    drop((table, state));
    let (each, all, part) = read.expect("it waits for no lock");
    reader.join().expect("no panic");
    assert!(each == expected && all == expected);
    assert_eq!(part, [4; 10]);
}
